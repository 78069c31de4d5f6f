"""The verifier that asks a vision-language model how much each candidate's view would help."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from render_agent.agents.verifiers.judge.batch_score import Score, batch_score, scorer
from render_agent.agents.verifiers.judge.rubric import Mode, Rubric, load_rubric
from render_agent.agents.verifiers.verifier import Case, TurnContext, Verdict, Verifier
from render_agent.dialogue.evidence import Candidate
from render_agent.dialogue.question import Question
from render_agent.dialogue.tokens import Tokens
from render_agent.engines.bundled_models import bundled_model
from render_agent.engines.checkpoint.locate import describe_model
from render_agent.engines.engine import Engine, Workload
from render_agent.engines.make_engine import (
    FINGERPRINTS,
    describe_engine,
    engine_traits,
    start_engine,
)
from render_agent.errors import SetupError, UsageError
from render_agent.options import AUTO, RunConfig
from render_agent.tasks.input_files import InputFile, sha256
from render_agent.tasks.mentions import named_categories
from render_agent.util.display import listed

JUDGE_PICTURES = 5  # in a judge's prompt: the view of the candidate and the latest ones shown

MAX_REQUESTS_PER_CALL = 1024
"""Requests that an engine is handed at once: more fill no batch better, and all take memory."""


@dataclass(eq=False)
class JudgeVerifier(Verifier):
    """Rates the views of candidates by `batch_score`, those of all states that wait in one call.

    It is called by the thread that owns the engine of the run also where the model is its own: only
    there all states that wait come together, and two models side by side gain nothing on one device.
    engine: is asked. max_new_tokens: of a written reply, for models that think first.
    """

    name = "judge"
    forms = ("judge[:MODEL]",)
    looks = True
    asks_model = True
    pictures = JUDGE_PICTURES

    engine: Engine | None = None
    rubric: Rubric | None = None
    mode: Mode = "yes"
    max_new_tokens: int = 0

    def own_config(self, config: RunConfig) -> RunConfig:
        """Return the options with which its own model is loaded: those of the run, but for its model's."""
        return replace(
            config,
            agent="single",
            verifier=(),
            engine="transformers",
            model=self.argument,
            revision=None,
            tensor_parallel=1,
            engine_option=(),
            batch_size=AUTO,
        )

    def check(
        self, config: RunConfig, questions: Sequence[Question] = (), engine: str | None = None
    ) -> None:
        """SetupError where the rubric cannot be read; UsageError where rubric or engine lack its mode.

        engine: the name of that of the run, where it is another than the options have.
        """
        mode, engine = config.judge_mode, engine or config.engine
        load_rubric(config.rubric).prompts(mode, "")  # type: ignore[arg-type]  # one of its choices
        if self.argument is not None:
            return
        if not engine_traits(engine).asks_model:
            raise SetupError(
                f"--verifier judge asks the model; the {engine} engine has none: name one as judge:MODEL"
            )
        if mode == "yes" and not engine_traits(engine).gives_probabilities:
            raise UsageError(
                f"--judge-mode yes reads the model's probabilities, which --engine {engine} does not give:"
                " use --judge-mode json, or judge:MODEL"
            )

    def check_at_hand(self, config: RunConfig) -> None:
        """Raise SetupError where its own model is not at hand."""
        if self.argument is not None:
            describe_engine(self.own_config(config))

    def inputs(self, config: RunConfig, questions: Sequence[Question]) -> Iterable[InputFile]:
        """Give a rubric of one's own, and as one entry the files of a bundled model."""
        rubric = Path(config.rubric)
        if rubric.is_absolute():
            yield InputFile("verifiers", str(rubric), "file of a verifier", sha256(rubric))
        if self.argument and bundled_model(self.argument):
            described = describe_model(self.argument)
            digest = " ".join(described[name] for name in FINGERPRINTS)
            yield InputFile("verifiers", self.label, "verifier", digest)

    def describe(self, config: RunConfig, questions: Sequence[Question]) -> dict[str, Any]:
        """Return its model, rubric and mode."""
        model = self.argument or engine_traits(config.engine).model_of(config)
        return {"model": model, "rubric": config.rubric, "mode": config.judge_mode}

    def open(self, config: RunConfig, questions: Sequence[Question], engine: Engine) -> Self:
        """Return the judge, its own model loaded where one is named. SetupError as in `check`."""
        self.check(config, questions, engine.name)
        own = self.argument is not None
        if not own and config.judge_mode == "yes":
            scorer(engine)
        return replace(
            self,
            engine=start_engine(self.own_config(config), [], Workload(self.pictures))
            if own
            else engine,
            rubric=load_rubric(config.rubric),
            mode=config.judge_mode,  # type: ignore[arg-type]  # one of its choices
            max_new_tokens=config.max_new_tokens,
        )

    def score(self, context: TurnContext, candidates: Sequence[Candidate]) -> Verdict:
        """Return the score of each candidate of one state, (1, K)."""
        return self.score_all([Case(context, tuple(candidates))])[0]

    def score_all(self, cases: Sequence[Case]) -> list[Verdict]:
        """Return the verdict on every case, in their order, from one call of `batch_score`.

        A picture to which several candidates lead is judged once. NaN, with the reason, where a picture
        has no score. EngineError where the engine is gone.
        """
        assert self.engine is not None, "it is open"
        entries = [
            (number, file)
            for number, case in enumerate(cases)
            for file in dict.fromkeys(c.view.file for c in case.candidates if c.view)
        ]
        calls = self.engine.calls
        scores = self._scores(self.engine, [(cases[n].context, file) for n, file in entries])
        share = (self.engine.calls - calls) / max(1, len(entries))
        by_file: list[dict[str, Score]] = [{} for _ in cases]
        for (number, file), score in zip(entries, scores, strict=True):
            by_file[number][file] = score
        return [
            _verdict(case, own, share * len(own)) for case, own in zip(cases, by_file, strict=True)
        ]

    def close(self) -> None:
        """Give back the model, where it is the judge's own."""
        if self.argument is not None and self.engine is not None:
            self.engine.close()

    def _scores(self, engine: Engine, views: Sequence[tuple[TurnContext, str]]) -> list[Score]:
        if not views:
            return []
        texts = [self._prompts(context.state.question) for context, _ in views]
        return batch_score(
            [file for _, file in views],
            [system for system, _ in texts],
            [user for _, user in texts],
            MAX_REQUESTS_PER_CALL,
            engine=engine,
            mode=self.mode,
            rubric=self.rubric,
            earlier=[_latest(context) for context, _ in views],
            read=views[0][0].picture,  # all are views of one run
            max_new_tokens=self.max_new_tokens,
        )

    def _prompts(self, question: Question) -> tuple[str, str]:
        assert self.rubric is not None, "it is open"
        text = "\n".join([question.text, *question.options])
        return self.rubric.prompts(self.mode, text, named_words(question))


def named_words(question: Question) -> str:
    """Return the names in a question as words for a judge: "the chair, the table and the door"."""
    return listed([f"the {name}" for name in named_categories(question)])


def _latest(context: TurnContext) -> list[str]:
    """Return the files of the latest views, the oldest first, each once."""
    files = list(dict.fromkeys(view.file for view in reversed(context.views)))
    return files[: JUDGE_PICTURES - 1][::-1]


def _verdict(case: Case, scores: dict[str, Score], calls: float) -> Verdict:
    """Return the verdict on one case from the scores of its views. calls: its share of the model's calls."""
    values, reasons = [], []
    for candidate in case.candidates:
        score = scores[candidate.view.file] if candidate.view else None
        values.append(np.nan if score is None or score.value is None else score.value)
        reasons.append("its view was not drawn" if score is None else _reason(score))
    tokens = Tokens.total(score.tokens for score in scores.values())
    seconds = sum(score.seconds for score in scores.values())
    return Verdict(np.array([values]), tuple(reasons), tokens, seconds, calls)


def _reason(score: Score) -> str:
    """Return why there is no score, or the criteria that it is made of."""
    return score.reason or ", ".join(
        f"{name} {finding.value:.2g}" for name, finding in score.criteria.items()
    )
