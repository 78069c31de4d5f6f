"""Who chooses the views of a run, and what chooses those that the model does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from render_agent.dialogue.question import Question
from render_agent.errors import UsageError
from render_agent.options import RunConfig
from render_agent.render.renderer import Renderer
from render_agent.scans.camera import Camera
from render_agent.scans.free_space.free_space import FreeSpace
from render_agent.scans.scene import Scene
from render_agent.tasks.choice import Choice
from render_agent.util.display import counted


@dataclass(frozen=True, eq=False)
class ViewContext:
    """Where views are chosen: a scene, its free space, and the camera of the first view.

    renderer: draws the small frames that views are compared by. size: width and height of the
    pictures in pixels.
    """

    scene: Scene
    space: FreeSpace
    renderer: Renderer
    start: Camera
    size: tuple[int, int]


@dataclass(frozen=True, slots=True)
class FurtherViews:
    """The views after the first ones.

    shared: whether all questions of the scene have the same.
    """

    cameras: Sequence[Camera]
    shared: bool = True


class Policy(Protocol):
    """Chooses the views of questions; what it chooses depends on question, scene and start alone."""

    def further(self, question: Question, context: ViewContext) -> FurtherViews:
        """Return the views that the question is shown after the first ones, in their order.

        RenderError where they cannot be compared.
        """
        ...


class ViewPolicy(Choice):
    """Who chooses the views; a value of `--views` is a subclass, which the registry names.

    This is one that shows all views at once: the opening of a free dialogue, and then as many views as a
    free one would have.
    """

    name: ClassVar[str]
    free: ClassVar[bool] = False
    """Whether the model chooses."""
    blind: ClassVar[bool] = False
    """Whether nothing is shown."""
    shared: ClassVar[bool] = False
    """Whether the views are the same for all questions of a scene."""
    words: ClassVar[str] = "{count}"
    """What is shown, for the note; `{count}` stands for "8 pictures"."""

    def opening_kinds(self, kinds: Sequence[str]) -> tuple[str, ...]:
        """Return the kinds of the first views, of those that are allowed, in their order.

        UsageError where a view is wanted whose kind is left out.
        """
        self.need("ego", kinds)
        return tuple(kind for kind in ("top", "ego") if kind in kinds)

    def most_views(self, kinds: Sequence[str], max_turns: int) -> int:
        """Return how many views a question is shown at the most."""
        return len(self.opening_kinds(kinds)) + max_turns - 1

    def note(self, kinds: Sequence[str], max_turns: int) -> str | None:
        """Return what must be said beside every figure of a run, None where the model chooses its views."""
        words = self.words.format(count=counted(self.most_views(kinds, max_turns), "picture"))
        return f"views: {words}, not chosen by the model (--views {self.name})"

    def build(self, config: RunConfig, questions: Sequence[Question]) -> Policy:
        """Return what chooses the views after the first ones, where the model does not.

        questions: all that it may be asked about. SetupError where what it has to know is not at hand.
        """
        raise NotImplementedError

    def need(self, kind: str, kinds: Sequence[str]) -> None:
        """Raise UsageError where a kind of view that is shown is left out."""
        if kind not in kinds:
            raise UsageError(
                f"--views {self.name} shows views of the kind {kind}: add it to --kinds"
            )
