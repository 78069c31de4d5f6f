"""The protocol of verifiers, which score the candidate moves of a turn: state, candidates → (members, K)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray
from PIL.Image import Image

from render_agent.dialogue.state import Candidate, QuestionState, Tokens, Turn, View
from render_agent.observation import Observation
from render_agent.scene.free_space.free_space import FreeSpace

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TurnContext:
    """Where a question stands when its next move is chosen.

    state: the turns before this one. observation: what is shown in it, where the camera stands, and where it
    may go. picture: gives the RGB picture of a view's file, as the model is shown it.
    """

    state: QuestionState
    observation: Observation
    picture: Callable[[str], Image]

    @classmethod
    def logged(
        cls, state: QuestionState, turn: Turn, space: FreeSpace, picture: Callable[[str], Image]
    ) -> Self:
        """Return the context in which a turn of a question was decided.

        state: with all its turns. space: where the camera could go.
        """
        before = replace(state, turns=state.turns[: turn.number], error=None, lost_events=())
        return cls(before, Observation(turn.views, turn.stood, space), picture)

    @property
    def turn(self) -> int:
        """The number of the turn."""
        return len(self.state.turns)

    @property
    def last(self) -> bool:
        """Whether no turn follows."""
        return self.turn + 1 == self.state.max_turns

    @property
    def views(self) -> tuple[View, ...]:
        """All views that were shown up to now."""
        return (*self.state.views, *self.observation.views)


@dataclass(frozen=True, eq=False)
class Verdict:
    """What a verifier says of K candidates of one state.

    scores: (M, K), a row a member, higher is better, NaN where it could not tell; they compare within
    this state and this member only. reasons: one a candidate, empty where there is nothing to say.
    tokens: what it took. seconds: its share of the time. calls: its share of calls of a model.
    """

    scores: FloatArray
    reasons: tuple[str, ...] = ()
    tokens: Tokens = Tokens()
    seconds: float = 0.0
    calls: float = 0.0
    events: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Case:
    """What is to be scored together: the candidates of one state, each with its view where it has one."""

    context: TurnContext
    candidates: tuple[Candidate, ...]


class Verifier(ABC):
    """Scores candidate moves; what it says depends on the state, the candidates and the seed alone.

    name: as `--verifier` has it. members: a name each. asks: whether it asks the engine of the run; then
    it is called by the thread that owns the engine, with no request under way, for all states that wait.
    Others are called by the thread that draws.
    """

    name: str
    members: tuple[str, ...]
    asks: bool = False

    @abstractmethod
    def score(self, context: TurnContext, candidates: Sequence[Candidate]) -> Verdict:
        """Return the scores of the candidates of one state, (members, K).

        What is the same for all candidates is computed once. EngineError where an engine is gone,
        SceneError or RenderError where the scene cannot be read or drawn.
        """

    def score_all(self, cases: Sequence[Case]) -> list[Verdict]:
        """Return the verdict on every case, in their order; a batch where the verifier can do one."""
        return [self.score(case.context, case.candidates) for case in cases]

    def close(self) -> None:  # noqa: B027 - most verifiers hold nothing
        """Give back what it holds."""


@dataclass(frozen=True)
class VerifierPanel:
    """The verifiers of a run, and how their scores are fused.

    weights: one a verifier. fusion: a name of `score_fusion.FUSIONS`.
    """

    verifiers: tuple[Verifier, ...] = ()
    weights: tuple[float, ...] = ()
    fusion: str = "ranks"

    @property
    def silent(self) -> tuple[Verifier, ...]:
        """Those that ask no engine."""
        return tuple(verifier for verifier in self.verifiers if not verifier.asks)

    @property
    def asking(self) -> tuple[Verifier, ...]:
        """Those that ask the engine of the run."""
        return tuple(verifier for verifier in self.verifiers if verifier.asks)

    def close(self) -> None:
        """Let every verifier give back what it holds."""
        for verifier in self.verifiers:
            verifier.close()
