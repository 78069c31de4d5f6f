"""Kinds of view that installed packages bring, beside the program's own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Protocol

from render_agent import registry as plugins
from render_agent.dialogue.reply import KINDS
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
    """Return a kind of view that an installed package brings, made once. SetupError where none does."""
    kind: ViewKind = plugins.make("kind of view", name, ViewKind, own=KINDS)
    return kind
