"""What is told between a run and the process that draws for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from render_agent.errors import RenderAgentError
from render_agent.geometry.camera import Camera, MapCamera
from render_agent.render.base import Frame
from render_agent.scene.model import Scene


@dataclass(frozen=True, eq=False)
class Job:
    """A picture that is asked for.

    number: of the scene, which comes with the first picture of it only. gone: numbers of scenes that are
    drawn no more. seconds: after which the drawing process ends itself, so that none is left over.
    """

    number: int
    scene: Scene | None
    gone: Sequence[int]
    camera: Camera | MapCamera
    width: int
    height: int
    seconds: float


@dataclass(frozen=True, eq=False)
class Drawn:
    """What came of it: the picture, or why there is none. memory: bytes that the process holds."""

    frame: Frame | RenderAgentError | MemoryError
    memory: int


@dataclass(frozen=True)
class Begun:
    """The renderer is there, or why not."""

    error: RenderAgentError | None
