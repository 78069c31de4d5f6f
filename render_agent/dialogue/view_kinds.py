"""Kinds of view: what the model is told of each, and how it is drawn; the program's own, and those of packages."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Protocol

from render_agent import registry
from render_agent.geometry.camera import Camera
from render_agent.scene.model import Scene

if TYPE_CHECKING:
    from render_agent.render.views import Picture, Viewer


class ViewKind(Protocol):
    """A kind of view: what the model is told of it, and how it is drawn.

    told: what it shows, as a part of a sentence, such as "what your camera sees ahead".
    """

    told: str

    def draw(
        self, viewer: Viewer, scene: Scene, camera: Camera, trail: Sequence[Camera]
    ) -> Picture:
        """Return the view of `scene` where `camera` stands, as large as the viewer's others.

        trail: where the camera stood before, oldest first. It depends on these alone. RenderError where it
        cannot be drawn.
        """
        ...


@cache
def view_kind(name: str) -> ViewKind:
    """Return a kind of view, made once. SetupError where there is no such kind."""
    kind: ViewKind = registry.load("kind of view", name)()
    return kind


class Ego:
    """What the camera sees."""

    told = "what your camera sees ahead"

    def draw(
        self, viewer: Viewer, scene: Scene, camera: Camera, trail: Sequence[Camera]
    ) -> Picture:
        """Return the view ahead."""
        return viewer.ego(scene, camera)


class Top:
    """The map."""

    told = (
        "a map: the place from above without its ceiling, with a grid in metres, your position, heading"
        " and path"
    )

    def draw(
        self, viewer: Viewer, scene: Scene, camera: Camera, trail: Sequence[Camera]
    ) -> Picture:
        """Return the map with the camera and its trail."""
        return viewer.top(scene, camera, trail)


class Around:
    """All around the camera."""

    told = "four directions in one picture: ahead, left, behind and right"

    def draw(
        self, viewer: Viewer, scene: Scene, camera: Camera, trail: Sequence[Camera]
    ) -> Picture:
        """Return four directions in one picture."""
        return viewer.around(scene, camera)
