"""The verifier that asks a vision-language model how much each candidate's view would help."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from render_agent.agents.verifiers.base import Case, Situation, Verdict, Verifier
from render_agent.agents.verifiers.judge.asking import scorer
from render_agent.agents.verifiers.judge.batch_score import batch_score
from render_agent.agents.verifiers.judge.pictures import Kept
from render_agent.agents.verifiers.judge.rubric import Mode, Rubric, load_rubric
from render_agent.agents.verifiers.judge.score import Score
from render_agent.config import AUTO, RunConfig
from render_agent.config.agent_plan import VerifierPlan
from render_agent.config.choosing_budget import LATEST
from render_agent.config.engine import engine_trait
from render_agent.dialogue.state import Candidate, Question, Tokens, View
from render_agent.engines.base import Engine
from render_agent.engines.registry import describe_engine, make_engine
from render_agent.errors import SetupError, UsageError
from render_agent.questions.mentions import named_categories

HANDED_OVER = 1024
"""Requests that an engine is handed at once: more fill no batch better, and all take memory."""


@dataclass(frozen=True)
class Entry:
    """A picture that is judged: the number of its case, and its view."""

    case: int
    view: View


class JudgeVerifier(Verifier):
    """Rates the views of candidates by `batch_score`, those of all states that wait in one call.

    It is called by the thread that owns the engine of the run also where the model is its own: only
    there all states that wait come together, and two models side by side gain nothing on one device.
    engine: is asked. own: whether it belongs to the judge, which then closes it. max_new_tokens: of a
    written reply, for models that think first.
    """

    members = ("judge",)
    asks = True

    def __init__(
        self,
        engine: Engine,
        rubric: Rubric,
        mode: Mode,
        name: str = "judge",
        *,
        own: bool = False,
        max_new_tokens: int = 0,
    ) -> None:
        self.engine = engine
        self.rubric = rubric
        self.mode = mode
        self.name = name
        self.own = own
        self.max_new_tokens = max_new_tokens

    def score(self, situation: Situation, candidates: Sequence[Candidate]) -> Verdict:
        """Return the score of each candidate of one state, (1, K)."""
        return self.score_all([Case(situation, tuple(candidates))])[0]

    def score_all(self, cases: Sequence[Case]) -> list[Verdict]:
        """Return the verdict on every case, in their order, from one call of `batch_score`.

        A picture to which several candidates lead is judged once. NaN, with the reason, where a picture
        has no score. EngineError where the engine is gone.
        """
        entries = [
            Entry(number, view)
            for number, case in enumerate(cases)
            for view in {c.view.file: c.view for c in case.candidates if c.view}.values()
        ]
        calls = self.engine.calls
        scores = self._scores(cases, entries)
        share = (self.engine.calls - calls) / max(1, len(entries))
        found: list[dict[str, Score]] = [{} for _ in cases]
        for entry, score in zip(entries, scores, strict=True):
            found[entry.case][entry.view.file] = score
        return [
            _verdict(case, own, share * len(own)) for case, own in zip(cases, found, strict=True)
        ]

    def close(self) -> None:
        """Give back the model, where it is the judge's own."""
        if self.own:
            self.engine.close()

    def _scores(self, cases: Sequence[Case], entries: Sequence[Entry]) -> list[Score]:
        situations = [cases[entry.case].situation for entry in entries]
        asked = [self._prompts(situation.state.question) for situation in situations]
        return batch_score(
            [
                Kept(entry.view.file, situation.picture)
                for entry, situation in zip(entries, situations, strict=True)
            ],
            [system for system, _ in asked],
            [user for _, user in asked],
            HANDED_OVER,
            engine=self.engine,
            mode=self.mode,
            rubric=self.rubric,
            earlier=[
                [Kept(file, situation.picture) for file in _latest(situation)]
                for situation in situations
            ],
            states=[entry.case for entry in entries],
            max_new_tokens=self.max_new_tokens,
        )

    def _prompts(self, question: Question) -> tuple[str, str]:
        text = "\n".join([question.text, *question.options])
        return self.rubric.prompts(self.mode, text, named_words(question))


def make_judge(plan: VerifierPlan, config: RunConfig, engine: Engine) -> JudgeVerifier:
    """Return the judge, its own model loaded where one is named. SetupError as in `check_judge`.

    engine: of the run, which is asked otherwise.
    """
    rubric = _rubric(config)
    if plan.argument is None:
        _refuse(engine.name, config.judge_mode)
        if config.judge_mode == "yes":
            scorer(engine)
    own = plan.argument is not None
    return JudgeVerifier(
        make_engine(judging(config, plan), []) if own else engine,
        rubric,
        config.judge_mode,  # type: ignore[arg-type]  # one of the choices of its option
        plan.label,
        own=own,
        max_new_tokens=config.max_new_tokens,
    )


def check_judge(plan: VerifierPlan, config: RunConfig, *, models: bool = True) -> None:
    """Raise where a run could not be judged; no weights are loaded.

    SetupError where the rubric cannot be read or its model is not at hand; UsageError where the rubric or
    the engine cannot be asked in this mode. models: whether its model has to be at hand.
    """
    _rubric(config)
    if plan.argument is None:
        _refuse(config.engine, config.judge_mode)
    elif models:
        describe_engine(judging(config, plan))


def judging(config: RunConfig, plan: VerifierPlan) -> RunConfig:
    """Return the options with which a judge's own model is loaded: those of the run, but for its model's."""
    return replace(
        config,
        agent="single",
        verifier=(),
        verifier_weights=(),
        engine="transformers",
        model=plan.argument,
        revision=None,
        tensor_parallel=1,
        engine_option=(),
        batch_size=AUTO,
    )


def named_words(question: Question) -> str:
    """Return what a question names, as a judge reads it: "the chair, the table and the door"."""
    names = [f"the {name}" for name in named_categories(question)]
    return " and ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)


def _rubric(config: RunConfig) -> Rubric:
    """Return the rubric, which has what is asked in this mode. SetupError where it has not."""
    rubric = load_rubric(config.rubric)
    rubric.prompts(config.judge_mode, "")  # type: ignore[arg-type]  # one of the choices of its option
    return rubric


def _refuse(engine: str, mode: str) -> None:
    if not engine_trait(engine, "asks_model", default=True):
        raise SetupError(
            f"--verifier judge asks the model; the {engine} engine has none: name one as judge:MODEL"
        )
    if mode == "yes" and not engine_trait(engine, "gives_probabilities", default=True):
        raise UsageError(
            f"--judge-mode yes reads the model's probabilities, which --engine {engine} does not give:"
            " use --judge-mode json or pairwise, or judge:MODEL"
        )


def _latest(situation: Situation) -> list[str]:
    """Return the files of the latest views, the oldest first, each once."""
    files = list(dict.fromkeys(view.file for view in reversed(situation.views)))
    return files[:LATEST][::-1]


def _verdict(case: Case, found: dict[str, Score], calls: float) -> Verdict:
    """Return what was found of the views of one case. calls: its share of the model's."""
    values, reasons = [], []
    for candidate in case.candidates:
        score = found[candidate.view.file] if candidate.view else None
        values.append(np.nan if score is None or score.value is None else score.value)
        reasons.append("its view was not drawn" if score is None else _reason(score))
    tokens = Tokens.total(score.tokens for score in found.values())
    seconds = sum(score.seconds for score in found.values())
    return Verdict(np.array([values]), tuple(reasons), tokens, seconds, calls)


def _reason(score: Score) -> str:
    """Return why there is no score, or the criteria that it is made of."""
    return score.reason or ", ".join(
        f"{name} {finding.value:.2g}" for name, finding in score.criteria.items()
    )
