"""The verifier that asks a vision-language model how useful the view of each candidate is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from render_agent.agents.verifiers.judge.batch_score import Score, batch_score, scorer
from render_agent.agents.verifiers.judge.rubric import Mode, Rubric, load_rubric
from render_agent.agents.verifiers.verifier import Case, TurnContext, Verdict, Verifier
from render_agent.dialogue.events import JUDGE
from render_agent.dialogue.question import Question
from render_agent.dialogue.tokens import Tokens
from render_agent.dialogue.turn import Candidate
from render_agent.engines.checkpoint.locate import describe_model
from render_agent.engines.engine import Engine, Workload
from render_agent.engines.make_engine import (
    describe_engine,
    engine_traits,
    model_digest,
    start_engine,
)
from render_agent.errors import SetupError, UsageError
from render_agent.options import AUTO, RunConfig
from render_agent.tasks.input_files import InputFile
from render_agent.tasks.question_types import named_categories
from render_agent.util.display import join_names
from render_agent.util.file_digests import sha256

MAX_JUDGE_IMAGES = 5  # images per prompt: the candidate's view, and the latest views before it

MAX_REQUESTS_PER_CALL = 1024  # bounds memory; larger calls would not fill batches better


@dataclass(eq=False)
class JudgeVerifier(Verifier):
    """Scores the views of candidates with `batch_score`, for all waiting states in one call.

    A judge with a separate model is also called from the engine's thread, because waiting states are collected there
    and running two models concurrently on one device has no benefit.
    """

    name = "judge"
    forms = ("judge[:MODEL]",)
    needs_views = True
    uses_model = True
    max_images = MAX_JUDGE_IMAGES

    engine: Engine | None = None
    rubric: Rubric | None = None
    mode: Mode = "yes"
    max_new_tokens: int = 0  # token limit of replies, for models that think first

    def own_config(self, config: RunConfig) -> RunConfig:
        """Return the options for loading the judge's separate model: those of the run, with a different model."""
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
        """Check that the rubric and the engine support the judge mode."""
        mode, engine = config.judge_mode, engine or config.engine
        load_rubric(config.rubric).prompts(mode, "")  # type: ignore[arg-type]  # one of its choices
        if self.argument is not None:
            return
        if not engine_traits(engine).uses_model:
            raise SetupError(
                f"--verifier judge needs a model, and --engine {engine} has none. Use --verifier judge:MODEL."
            )
        if mode == "yes" and not engine_traits(engine).supports_scoring:
            raise UsageError(
                f"--judge-mode yes needs token probabilities, which --engine {engine} does not return."
                " Use --judge-mode json, or --verifier judge:MODEL."
            )

    def check_at_hand(self, config: RunConfig) -> None:
        """Raise SetupError if the judge's separate model is not available."""
        if self.argument is not None:
            describe_engine(self.own_config(config))

    def inputs(self, config: RunConfig, questions: Sequence[Question]) -> Iterable[InputFile]:
        """Yield the user's rubric file, and one entry for all files of the judge's separate model."""
        rubric = Path(config.rubric)
        if rubric.is_absolute():
            yield InputFile("verifiers", str(rubric), sha256(rubric))
        if self.argument:
            digest = model_digest(describe_model(self.argument))
            yield InputFile("verifiers", self.label, digest, may_appear=True)

    def describe(self, config: RunConfig, questions: Sequence[Question]) -> dict[str, Any]:
        model = self.argument or engine_traits(config.engine).model_name(config)
        return {"model": model, "rubric": config.rubric, "mode": config.judge_mode}

    def open(self, config: RunConfig, questions: Sequence[Question], engine: Engine) -> Self:
        """Return the judge, with its separate model loaded if it has one. Raises the same errors as `check`."""
        self.check(config, questions, engine.name)
        has_own_model = self.argument is not None
        if not has_own_model and config.judge_mode == "yes":
            scorer(engine)
        return replace(
            self,
            engine=start_engine(self.own_config(config), [], Workload(self.max_images))
            if has_own_model
            else engine,
            rubric=load_rubric(config.rubric),
            mode=config.judge_mode,  # type: ignore[arg-type]  # one of its choices
            max_new_tokens=config.max_new_tokens,
        )

    def score(self, context: TurnContext, candidates: Sequence[Candidate]) -> Verdict:
        """Return the score of each candidate of one state, (1, K)."""
        return self.score_all([Case(context, tuple(candidates))])[0]

    def score_all(self, cases: Sequence[Case]) -> list[Verdict]:
        """Return the verdict on each case, in order, from one call of `batch_score`.

        An image that several candidates lead to is judged only once. If an image cannot be judged, its score is NaN,
        with a reason.
        """
        assert self.engine is not None, "open() must be called first"
        entries = [
            (index, file)
            for index, case in enumerate(cases)
            for file in dict.fromkeys(c.view.file for c in case.candidates if c.view)
        ]
        calls_before = self.engine.calls
        scores = self._scores(self.engine, [(cases[i].context, file) for i, file in entries])
        calls_per_view = (self.engine.calls - calls_before) / max(1, len(entries))
        by_file: list[dict[str, Score]] = [{} for _ in cases]
        for (index, file), score in zip(entries, scores, strict=True):
            by_file[index][file] = score
        return [
            _verdict(case, of_case, calls_per_view * len(of_case))
            for case, of_case in zip(cases, by_file, strict=True)
        ]

    def close(self) -> None:
        """Close the judge's separate model, if it has one."""
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
            earlier=[_latest_files(context) for context, _ in views],
            load_image=views[0][0].load_image,  # the same for all contexts of a run
            max_new_tokens=self.max_new_tokens,
        )

    def _prompts(self, question: Question) -> tuple[str, str]:
        assert self.rubric is not None, "open() must be called first"
        text = "\n".join([question.text, *question.options])
        return self.rubric.prompts(self.mode, text, named_words(question))


def named_words(question: Question) -> str:
    """Return the objects in a question as a phrase: "the chair, the table and the door"."""
    return join_names([f"the {name}" for name in named_categories(question)])


def _latest_files(context: TurnContext) -> list[str]:
    """Return the distinct files of the latest views, oldest first."""
    files = list(dict.fromkeys(view.file for view in reversed(context.views)))
    return files[: MAX_JUDGE_IMAGES - 1][::-1]


def _verdict(case: Case, scores: dict[str, Score], calls: float) -> Verdict:
    """Combine the scores of the views of one case; `calls` is the case's share of the model calls."""
    values, reasons = [], []
    for candidate in case.candidates:
        score = scores[candidate.view.file] if candidate.view else None
        values.append(np.nan if score is None or score.value is None else score.value)
        reasons.append("its view was not drawn" if score is None else _reason(score))
    tokens = Tokens.total(score.tokens for score in scores.values())
    seconds = sum(score.seconds for score in scores.values())
    events = tuple(f"{JUDGE}{event}" for score in scores.values() for event in score.events)
    return Verdict(np.array([values]), tuple(reasons), tokens, seconds, calls, events)


def _reason(score: Score) -> str:
    """Return the reason for a missing score, or the values of the criteria."""
    return score.reason or ", ".join(
        f"{name} {finding.value:.2g}" for name, finding in score.criteria.items()
    )
