"""The child process of `SubprocessRenderer`: one renderer that draws what its pipe asks for; and its messages."""

from __future__ import annotations

import signal
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection

from render_agent.errors import RenderAgentError, RenderError
from render_agent.geometry.camera import Camera, MapCamera
from render_agent.render.base import Frame, Renderer
from render_agent.render.registry import make_renderer
from render_agent.scene.model import Scene

Result = Frame | RenderAgentError | MemoryError
"""What the child process sends for a job: the picture, or the error."""


def serve(connection: int, name: str) -> None:
    """Make the renderer `name`, send None or why it cannot be made, and draw with it until the other side is gone.

    connection: its file descriptor.
    """
    pipe: Connection[Result | None, Job] = Connection(connection)
    try:
        renderer = make_renderer(name)
    except RenderAgentError as error:
        pipe.send(error)
        return
    pipe.send(None)
    scenes: dict[int, Scene] = {}
    try:
        while True:
            pipe.send(_done(pipe.recv(), renderer, scenes))
    except (EOFError, OSError):
        renderer.close()


def _done(job: Job, renderer: Renderer, scenes: dict[int, Scene]) -> Result:
    """Draw one picture; a timer of the system ends this process where that takes too long."""
    for number in job.gone:
        scenes.pop(number, None)
    if job.scene is not None:
        scenes[job.number] = job.scene
    signal.setitimer(signal.ITIMER_REAL, job.seconds)
    try:
        result: Result = renderer.draw(scenes[job.number], job.camera, job.width, job.height)
    except RenderAgentError as error:
        result = error
    except Exception as error:  # noqa: BLE001 - a renderer may be anybody's code
        result = MemoryError() if isinstance(error, MemoryError) else RenderError(repr(error))
        result.add_note(traceback.format_exc())
    signal.setitimer(signal.ITIMER_REAL, 0)
    return result


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
