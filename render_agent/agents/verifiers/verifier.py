"""The base class of verifiers, which score the candidate moves of a turn: state, candidates → (members, K)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from PIL.Image import Image

from render_agent.dialogue.evidence import Candidate
from render_agent.dialogue.question import Question
from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.tokens import Tokens
from render_agent.dialogue.turn import Turn
from render_agent.dialogue.view import View
from render_agent.scans.free_space.free_space import FreeSpace
from render_agent.tasks.choice import Choice
from render_agent.views.provider import Observation

if TYPE_CHECKING:
    from render_agent.engines.engine import Engine
    from render_agent.options import RunConfig

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


@dataclass(eq=False)
class Verifier(Choice, ABC):
    """Scores candidate moves; what it says depends on the state, the candidates and the seed alone.

    Made of what stands behind the colon in `--verifier`, None for nothing; `open` returns it ready to score.
    """

    name: ClassVar[str]
    """Its name in `--verifier`, before the colon."""
    forms: ClassVar[Sequence[str]]
    """How it is written."""
    looks: ClassVar[bool] = False
    """Whether it looks at what a candidate would show."""
    asks_model: ClassVar[bool] = False
    """Whether it asks a model about every candidate. Then it is called by the thread that owns the engine, with
    no request under way, for all states that wait; others are called by the thread that draws."""

    pictures: ClassVar[int] = 0
    """The largest number of images in a prompt with which it asks a model."""

    argument: str | None = None
    own_scene: bool = True
    """Whether dialogues take place in the question's own scene, so that its boxes hold."""

    @classmethod
    def accepts(cls, argument: str | None) -> bool:
        """Whether one of its forms has this behind the colon, None for no colon.

        A word in capitals stands for any text, and what is in brackets may be left out.
        """
        for form in cls.forms:
            _, colon, behind = form.replace("[", "").removesuffix("]").partition(":")
            if argument is None:
                fits = not colon or form.endswith("]")
            else:
                fits = bool(argument) and (argument == behind or behind.isupper())
            if fits:
                return True
        return False

    @property
    def label(self) -> str:
        """The words it was asked for with."""
        return self.name if self.argument is None else f"{self.name}:{self.argument}"

    @property
    def members(self) -> tuple[str, ...]:
        """A name for every row of its scores."""
        return (self.name,)

    def open(self, config: RunConfig, questions: Sequence[Question], engine: Engine) -> Self:
        """Return the verifier ready to score; engine: of the run. SetupError where what it needs is not at hand."""
        return self

    @abstractmethod
    def score(self, context: TurnContext, candidates: Sequence[Candidate]) -> Verdict:
        """Return the scores of the candidates of one state, (members, K).

        What is the same for all candidates is computed once. EngineError where an engine is gone,
        SceneError or RenderError where the scene cannot be read or drawn.
        """

    def score_all(self, cases: Sequence[Case]) -> list[Verdict]:
        """Return the verdict on every case, in their order; a batch where the verifier can do one."""
        return [self.score(case.context, case.candidates) for case in cases]

    def close(self) -> None:
        """Give back what it holds."""
