"""Base class of view policies (`--views`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol

from render_agent.dialogue.question import Question
from render_agent.errors import UsageError
from render_agent.options import RunConfig
from render_agent.render.renderer import Renderer
from render_agent.scans.camera import Camera
from render_agent.scans.free_space.free_space import FreeSpace
from render_agent.scans.scene import Scene
from render_agent.tasks.input_files import Choice
from render_agent.util.display import count_noun


@dataclass(frozen=True, eq=False)
class ViewContext:
    """The scene and the parameters that views are chosen for."""

    scene: Scene
    space: FreeSpace
    renderer: Renderer
    """Renders the small images used to compare views."""
    start: Camera
    """Camera of the first view."""
    size: tuple[int, int]
    """Width and height of images in pixels."""


@dataclass(frozen=True, slots=True)
class AdditionalViews:
    """The views after the opening views."""

    cameras: Sequence[Camera]
    shared: bool = True
    """True if all questions of the scene share these views."""
    frames: Mapping[Camera, Path] = field(default_factory=dict)
    """Recorded images to show instead of renderings, by camera."""
    notes: tuple[str, ...] = ()
    """Remarks on the views for the log of the first turn."""


class ViewChooser(Protocol):
    """Chooses views that depend only on question, scene and start pose."""

    def additional_views(self, question: Question, context: ViewContext) -> AdditionalViews:
        """Return the views that follow the opening views of a question, in order.

        Raises:
            RenderError: Views cannot be compared.
        """
        ...


@dataclass(frozen=True, eq=False)
class ScenePlanner:
    """Plans the views of a scene once, for all its questions."""

    plan: Callable[[ViewContext, int], list[Camera]]
    """Returns the cameras for a scene and a number of views."""
    count: int  # number of views after the opening
    _planned: dict[str, AdditionalViews] = field(default_factory=dict)

    def additional_views(self, question: Question, context: ViewContext) -> AdditionalViews:
        """Return the views of the question's scene, in order."""
        if question.scene not in self._planned:
            self._planned[question.scene] = AdditionalViews(self.plan(context, self.count))
        return self._planned[question.scene]


class ViewPolicy(Choice):
    """Chooses the views of a run. Values of `--views` are registered subclasses.

    By default, all views are shown at once: the opening views of a free dialogue, then one view for each of its
    remaining turns.
    """

    name: ClassVar[str]
    free: ClassVar[bool] = False
    """True if the model chooses its views."""
    blind: ClassVar[bool] = False
    """True if nothing is shown."""
    shared: ClassVar[bool] = False
    """True if all questions of a scene share their views."""
    description: ClassVar[str] = "{count}"
    """Description of the views for the caveat; `{count}` stands for e.g. "8 images"."""
    is_video: ClassVar[bool] = False
    """True if the views follow the recorded video, which questions about the order of appearance need."""
    takes_argument: ClassVar[bool] = False
    """True if the value of `--views` may have text after a colon."""

    def __init__(self, argument: str | None = None) -> None:
        self.text = self.name if argument is None else f"{self.name}:{argument}"
        if argument is not None and not self.takes_argument:
            raise UsageError(f"--views {self.name} takes no value. Omit the text after the colon.")

    def opening_kinds(self, kinds: Sequence[str]) -> tuple[str, ...]:
        """Return the types of the opening views, in order.

        Args:
            kinds: View types that are allowed.

        Raises:
            UsageError: A view type that the policy needs is not allowed.
        """
        self.need("ego", kinds)
        return tuple(kind for kind in ("top", "ego") if kind in kinds)

    def max_views(self, kinds: Sequence[str], max_turns: int) -> int:
        """Return the maximum number of views shown per question."""
        return len(self.opening_kinds(kinds)) + max_turns - 1

    def note(self, kinds: Sequence[str], max_turns: int) -> str | None:
        """Return the caveat reported with every score of a run; None if the model chooses its views."""
        words = self.description.format(count=count_noun(self.max_views(kinds, max_turns), "image"))
        return f"views: {words}, not chosen by the model (--views {self.text})"

    def build(self, config: RunConfig, questions: Sequence[Question]) -> ViewChooser:
        """Return the policy for the views after the opening. Not called if the model chooses its views.

        Args:
            config: Options of the run.
            questions: All questions of the run.

        Raises:
            SetupError: Data that the policy needs is missing.
        """
        raise NotImplementedError

    def need(self, kind: str, kinds: Sequence[str]) -> None:
        """Raise UsageError if a view type is not allowed."""
        if kind not in kinds:
            raise UsageError(
                f"--views {self.name} shows views of type {kind}. Add it to --view-types."
            )
