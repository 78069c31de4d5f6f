"""The seam between a dialogue and whoever chooses its views beforehand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from render_agent.dialogue.state import Question
from render_agent.geometry.camera import Camera
from render_agent.render.base import Renderer
from render_agent.scene.free_space.free_space import FreeSpace
from render_agent.scene.model import Scene


@dataclass(frozen=True, eq=False)
class Place:
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
class Further:
    """The views after the first ones.

    shared: whether all questions of the scene have the same.
    """

    cameras: Sequence[Camera]
    shared: bool = True


class Policy(Protocol):
    """Chooses the views of questions; what it chooses depends on question, scene and start alone."""

    def further(self, question: Question, place: Place) -> Further:
        """Return the views that the question is shown after the first ones, in their order.

        RenderError where they cannot be compared.
        """
        ...
