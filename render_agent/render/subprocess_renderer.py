"""Runs a renderer in a child process, so that the run survives a crash or hang of its library."""

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

# Timeout of one view, and of start-up; the largest scans take seconds, even without a GPU.
MAX_SECONDS = 300.0
MAX_TRIES = 2  # attempts per view before its question fails

logger = logging.getLogger(__name__)

Result = Frame | RenderAgentError | MemoryError
"""The child process's answer to a job: the frame or the error."""


def make_isolated_renderer(name: str) -> Renderer:
    """Create the renderer `name`, in a child process unless it is the built-in rasteriser.

    The rasteriser runs in this process, because it cannot crash and no data needs to be copied.
    """
    return make_renderer(name) if name == "rasteriser" else SubprocessRenderer(name)


class RendererCrashedError(Exception):
    """The child process died or was killed."""


class SubprocessRenderer(Renderer):
    """Draws with the renderer `name` in a child process, restarting it if it dies; see `Renderer`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._stopped = False
        try:
            self._process: DrawingProcess | None = DrawingProcess(name)
        except RendererCrashedError as error:
            raise SetupError(
                f"the renderer {name} {error} at start-up; use --renderer rasteriser"
            ) from None

    def draw(self, scene: Scene, camera: Camera | MapCamera, width: int, height: int) -> Frame:
        reason = ""
        for _ in range(MAX_TRIES):
            try:
                return self._draw(scene, camera, width, height)
            except RendererCrashedError as error:
                self._end()
                if self._stopped:
                    raise RenderError("the run was stopped while this view was drawn") from None
                reason = str(error)
                logger.warning("the renderer %s %s while drawing %s", self.name, reason, scene.id)
        raise RenderError(
            f"the renderer {self.name} {reason} while drawing {scene.id}; use --renderer rasteriser"
        )

    def close(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process = None

    def stop(self) -> None:
        """Kill the process immediately. Thread-safe."""
        self._stopped = True
        if (process := self._process) is not None:
            process.kill()

    def _draw(self, scene: Scene, camera: Camera | MapCamera, width: int, height: int) -> Frame:
        if self._stopped:
            raise RendererCrashedError
        if self._process is None:
            self._process = DrawingProcess(self.name)
            if self._stopped:  # by another thread in the meantime
                raise RendererCrashedError
        try:
            result = self._process.draw(scene, camera, width, height)
        except RendererCrashedError:
            raise
        except BaseException:  # otherwise the next answer would belong to this job
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
    """A child process that draws, and the scenes it has loaded. Raises RendererCrashedError if it dies."""

    def __init__(self, name: str) -> None:
        self._connection, self._process = start_child(serve, name)
        self._numbers: WeakKeyDictionary[Scene, int] = WeakKeyDictionary()
        self._next = 0
        self._dropped: list[int] = []
        error = self._receive(MAX_SECONDS)
        if error is not None:
            self.close()
            raise error

    def draw(self, scene: Scene, camera: Camera | MapCamera, width: int, height: int) -> Result:
        """Return the frame, or the error that the renderer raised."""
        number = self._numbers.get(scene)
        is_new = number is None
        if number is None:
            self._next += 1
            number = self._numbers[scene] = self._next
            finalize(scene, self._dropped.append, number).atexit = False
        dropped_scenes, self._dropped[:] = tuple(self._dropped), []
        new_scene = scene if is_new else None
        size, seconds = (width, height), 2 * MAX_SECONDS
        try:
            self._connection.send(Job(number, new_scene, dropped_scenes, camera, size, seconds))
        except OSError:
            raise self._death() from None
        result: Result = self._receive(MAX_SECONDS)
        return result

    def close(self) -> None:
        """Close the pipe so that the process exits; kill it after a timeout."""
        self._connection.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        self.kill()

    def kill(self) -> None:
        """Kill the process immediately."""
        self._process.kill()
        self._process.wait()

    def _receive(self, seconds: float) -> Any:
        try:
            if not self._connection.poll(seconds):
                self.kill()
                raise RendererCrashedError(f"did not answer within {seconds:.0f} s")
            return self._connection.recv()
        except (EOFError, OSError):
            raise self._death() from None

    def _death(self) -> RendererCrashedError:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        self.kill()
        code = self._process.returncode
        if code >= 0:
            return RendererCrashedError(f"exited with code {code}")
        memory = ", possibly out of memory" if -code == signal.SIGKILL else ""
        return RendererCrashedError(f"crashed ({signal_name(code)}{memory})")


@dataclass(frozen=True, eq=False)
class Job:
    number: int
    scene: Scene | None  # the scene, in its first request; None in later ones
    dropped: Sequence[int]  # numbers of scenes that are no longer needed
    camera: Camera | MapCamera
    size: tuple[int, int]  # width and height of the image in pixels
    seconds: float  # time after which the process kills itself, so that no orphan remains


def serve(connection: int, name: str) -> None:
    """Entry point of the child process: creates the renderer, reports success or the error, and draws until the pipe
    closes.
    """
    pipe: Connection[Result | None, Job] = Connection(connection)
    try:
        renderer = make_renderer(name)
    except RenderAgentError as error:
        pipe.send(error)
        return
    except Exception as error:  # noqa: BLE001 - a renderer may be third-party code
        reason = f"{type(error).__name__}: {error}"
        pipe.send(SetupError(f"cannot create the renderer {name!r} ({reason})"))
        return
    pipe.send(None)
    scenes: dict[int, Scene] = {}
    try:
        while True:
            pipe.send(_draw_job(pipe.recv(), renderer, scenes))
    except (EOFError, OSError):
        renderer.close()


def _draw_job(job: Job, renderer: Renderer, scenes: dict[int, Scene]) -> Result:
    """Draw one view. A system timer kills this process if that takes too long."""
    for number in job.dropped:
        scenes.pop(number, None)
    if job.scene is not None:
        scenes[job.number] = job.scene
    signal.setitimer(signal.ITIMER_REAL, job.seconds)
    try:
        result: Result = renderer.draw(scenes[job.number], job.camera, *job.size)
    except RenderAgentError as error:
        result = error
    except Exception as error:  # noqa: BLE001 - a renderer may be third-party code
        result = MemoryError() if isinstance(error, MemoryError) else RenderError(repr(error))
        result.add_note(traceback.format_exc())
    signal.setitimer(signal.ITIMER_REAL, 0)
    return result
