"""A renderer in a process of its own: if its library crashes or hangs, the run goes on."""

from __future__ import annotations

import logging
import signal
import subprocess
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any
from weakref import WeakKeyDictionary, finalize

from render_agent.errors import RenderAgentError, RenderError, SetupError
from render_agent.render.make_renderer import make_renderer
from render_agent.render.renderer import Frame, Renderer
from render_agent.scans.camera import Camera, MapCamera
from render_agent.scans.scene import Scene
from render_agent.util.processes import signal_name, start_child

MAX_SECONDS = 300.0
"""A view that takes longer never comes: the largest scans take seconds, without a graphics card too."""

MAX_SECONDS_TO_START = 300.0
"""A renderer that takes longer to be made never is: large libraries may come off a slow disk."""

MAX_TRIES = 2
"""How often a view is drawn before its question fails."""

logger = logging.getLogger(__name__)

Result = Frame | RenderAgentError | MemoryError
"""What the child process sends for a job: the picture, or the error."""


def make_guarded(name: str) -> Renderer:
    """Return the renderer called `name`, in a process of its own unless it is the built-in one. SetupError as it has it.

    The program's own draws in this process: nothing in it can crash, and nothing is handed to and fro.
    """
    return make_renderer(name) if name == "rasteriser" else SubprocessRenderer(name)


class RendererCrashed(Exception):
    """The drawing process ended, or was killed."""


class SubprocessRenderer:
    """Draws with the renderer `name` in a process of its own, begun anew where it ended (see Renderer).

    SetupError where the renderer cannot be made.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._stopped = False
        try:
            self._process: DrawingProcess | None = DrawingProcess(name)
        except RendererCrashed as how:
            raise SetupError(
                f"The renderer {name} {how} when it was started; use the renderer rasteriser."
            ) from None

    def draw(self, scene: Scene, camera: Camera | MapCamera, width: int, height: int) -> Frame:
        """Return the picture of `scene` that `camera` sees, `width` × `height` pixels.

        Raises RenderError where the renderer does, and where its process ended MAX_TRIES times.
        """
        how = ""
        for _ in range(MAX_TRIES):
            try:
                return self._drawn(scene, camera, width, height)
            except RendererCrashed as death:
                self._end()
                if self._stopped:
                    raise RenderError("The run was stopped while this was drawn.") from None
                how = str(death)
                logger.warning("the renderer %s %s when it drew %s", self.name, how, scene.id)
        raise RenderError(
            f"The renderer {self.name} {how} when it drew {scene.id}; use the renderer rasteriser."
        )

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.close()
            self._process = None

    def stop(self) -> None:
        """End the process at once, whatever it does; may be called from any thread."""
        self._stopped = True
        if (process := self._process) is not None:
            process.kill()

    def _drawn(self, scene: Scene, camera: Camera | MapCamera, width: int, height: int) -> Frame:
        if self._stopped:
            raise RendererCrashed
        if self._process is None:
            self._process = DrawingProcess(self.name)
            if self._stopped:  # meanwhile
                raise RendererCrashed
        try:
            result = self._process.draw(scene, camera, width, height)
        except RendererCrashed:
            raise
        except BaseException:  # what was asked for and what is said would no longer fit together
            self._end()
            raise
        if isinstance(result, Frame):
            return result
        raise result

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process = None


class DrawingProcess:
    """A process that draws, and the scenes that it was sent. RendererCrashed if it ends."""

    def __init__(self, name: str) -> None:
        self._connection, self._process = start_child(serve, name)
        self._numbers: WeakKeyDictionary[Scene, int] = WeakKeyDictionary()
        self._next = 0
        self._gone: list[int] = []
        error = self._receive(MAX_SECONDS_TO_START)
        if error is not None:
            self.close()
            raise error

    def draw(self, scene: Scene, camera: Camera | MapCamera, width: int, height: int) -> Result:
        """Return the picture, or the error that the renderer raised."""
        number = self._numbers.get(scene)
        new = number is None
        if number is None:
            self._next += 1
            number = self._numbers[scene] = self._next
            finalize(scene, self._gone.append, number).atexit = False
        gone, self._gone[:] = tuple(self._gone), []
        job = Job(number, scene if new else None, gone, camera, width, height, 2 * MAX_SECONDS)
        try:
            self._connection.send(job)
        except OSError:
            raise self._death() from None
        result: Result = self._receive(MAX_SECONDS)
        return result

    def close(self) -> None:
        """Let the process end, or end it."""
        self._connection.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        self.kill()

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()
        self._process.wait()

    def _receive(self, seconds: float) -> Any:
        try:
            if not self._connection.poll(seconds):
                self.kill()
                raise RendererCrashed(f"gave nothing in {seconds:.0f} s")
            return self._connection.recv()
        except (EOFError, OSError):
            raise self._death() from None

    def _death(self) -> RendererCrashed:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        self.kill()
        code = self._process.returncode
        if code >= 0:
            return RendererCrashed(f"ended its process with exit code {code}")
        memory = ", as where memory runs out" if -code == signal.SIGKILL else ""
        return RendererCrashed(f"crashed its process ({signal_name(code)}{memory})")


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
    except Exception as error:  # noqa: BLE001 - a renderer may be anybody's code
        reason = f"{type(error).__name__}: {error}"
        pipe.send(SetupError(f"the renderer {name!r} could not be made ({reason})"))
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
