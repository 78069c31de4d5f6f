"""The base class of verifiers, which score the candidate moves of a turn."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from PIL.Image import Image

from render_agent.dialogue.chat import View
from render_agent.dialogue.question import Question
from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.tokens import Tokens
from render_agent.dialogue.turn import Candidate, Turn
from render_agent.scans.free_space.free_space import FreeSpace
from render_agent.tasks.input_files import Choice
from render_agent.views.provider import NextViews

if TYPE_CHECKING:
    from render_agent.engines.engine import Engine
    from render_agent.options import RunConfig

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TurnContext:
    """The state of a question when its next move is chosen."""

    state: QuestionState  # the question with the turns before this one
    observation: NextViews  # the views shown in this turn, the camera and its free space
    load_image: Callable[[str], Image]
    """Returns the RGB image for a view's file, as the model sees it."""

    @classmethod
    def logged(
        cls,
        state: QuestionState,
        turn: Turn,
        space: FreeSpace,
        load_image: Callable[[str], Image],  # returns the RGB image for a view's file
    ) -> Self:
        """Reconstruct the context in which a logged turn was decided."""
        before = replace(state, turns=state.turns[: turn.number], error=None, lost_events=())
        return cls(before, NextViews(turn.views, turn.camera_before, space), load_image)

    @property
    def turn(self) -> int:
        return len(self.state.turns)

    @property
    def is_last_turn(self) -> bool:
        return self.turn + 1 == self.state.max_turns

    @property
    def views(self) -> tuple[View, ...]:
        """All views shown so far, including those of this turn."""
        return (*self.state.views, *self.observation.views)


@dataclass(frozen=True, eq=False)
class Verdict:
    """The scores of one verifier for K candidates of one state."""

    scores: FloatArray
    """(M, K), one row per member; higher is better, NaN if there is no score. Comparable within this state and
    this member only.
    """
    reasons: tuple[str, ...] = ()  # one per candidate; an empty string for no reason
    tokens: Tokens = Tokens()
    seconds: float = 0.0  # share of the time of the batch
    calls: float = 0.0  # share of the model calls of the batch
    events: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Case:
    """The candidates of one state, to be scored together."""

    context: TurnContext
    candidates: tuple[Candidate, ...]


@dataclass(eq=False)
class Verifier(Choice, ABC):
    """Scores candidate moves. Scores must depend only on the state, the candidates and the seed.

    Call `open` before `score`. Verifiers with `uses_model` are called from the engine's thread while no other
    request is running, with all waiting states at once; others are called from the rendering thread.

    Attributes:
        name: The value of `--verifier`, before the colon.
        forms: Accepted spellings of `--verifier`. Upper-case words stand for any text, and brackets mark optional
            parts.
        needs_views: True if it needs the view that a candidate leads to.
        uses_model: True if it asks a model about each candidate.
        max_images: Largest number of images in a prompt to a model.
        argument: The text after the colon in `--verifier`; None if there is none.
        own_scene: True if dialogues take place in the question's own scene, so that its object boxes apply.
    """

    name: ClassVar[str]
    forms: ClassVar[Sequence[str]]
    needs_views: ClassVar[bool] = False
    uses_model: ClassVar[bool] = False
    max_images: ClassVar[int] = 0

    argument: str | None = None
    own_scene: bool = True

    @classmethod
    def accepts(cls, argument: str | None) -> bool:
        """True if the text after the colon (None without a colon) matches one of `forms`."""
        for form in cls.forms:
            _, colon, placeholder = form.replace("[", "").removesuffix("]").partition(":")
            if argument is None:
                matches = not colon or form.endswith("]")
            else:
                matches = bool(argument) and (argument == placeholder or placeholder.isupper())
            if matches:
                return True
        return False

    @property
    def label(self) -> str:
        """The verifier as written in `--verifier`."""
        return self.name if self.argument is None else f"{self.name}:{self.argument}"

    @property
    def members(self) -> tuple[str, ...]:
        """Name of each row of its scores."""
        return (self.name,)

    def open(self, config: RunConfig, questions: Sequence[Question], engine: Engine) -> Self:
        """Return a copy that is ready to score, with models and data loaded.

        Args:
            config: The options of the run.
            questions: The questions of the run.
            engine: The engine of the run.

        Raises:
            SetupError: A model or a file is not available.
        """
        return self

    @abstractmethod
    def score(self, context: TurnContext, candidates: Sequence[Candidate]) -> Verdict:
        """Score the candidates of one state. Implementations should run shared computations only once.

        Args:
            context: The turn.
            candidates: K candidates, with views if `needs_views` is set.

        Returns:
            The verdict, with scores of shape (members, K).

        Raises:
            EngineError: An engine is no longer usable.
            SceneError: The scene cannot be read.
            RenderError: The scene cannot be rendered.
        """

    def score_all(self, cases: Sequence[Case]) -> list[Verdict]:
        """Return the verdict on each case, in order; override to score several cases in one batch."""
        return [self.score(case.context, case.candidates) for case in cases]

    def close(self) -> None:
        """Release models and renderers."""
