"""A renderer that makes all its OpenGL calls in one thread, as a context belongs to the thread that made it."""

from __future__ import annotations

from abc import ABC, abstractmethod

from render_agent.errors import RenderError, SetupError
from render_agent.geometry.camera import Camera, MapCamera
from render_agent.render.base import Frame, check_size
from render_agent.render.registry import require_opengl
from render_agent.scene.model import Scene
from render_agent.system.threads import begun_pool


class ThreadedRenderer(ABC):
    """A renderer with a thread of its own, so that `draw` may be called from any (see Renderer).

    A subclass gives `_start`, `_draw` and `_release`, which run in that thread; `_start` sets
    `_error`, what its library raises, and `device`, what draws, in OpenGL's own words. Make one a
    process.
    """

    name: str
    device: str
    _error: type[Exception]

    def __init__(self) -> None:
        """Start OpenGL. SetupError where that fails, or what it needs is not installed."""
        require_opengl(self.name)
        self._owner = begun_pool(1, self.name)
        try:
            self._owner.submit(self._start).result()
        except BaseException as error:
            self._owner.shutdown()
            # drivers and bindings raise anything, AssertionError included
            if not isinstance(error, Exception):
                raise
            raise SetupError(
                f"The renderer {self.name} could not start OpenGL through EGL "
                f"({type(error).__name__}: {error}); use the renderer rasteriser."
            ) from error

    def draw(self, scene: Scene, camera: Camera | MapCamera, width: int, height: int) -> Frame:
        """Return the picture of `scene` that `camera` sees, `width` × `height` pixels.

        Raises RenderError where the picture has no pixels or OpenGL refuses.
        """
        check_size(width, height)
        try:
            return self._owner.submit(self._draw, scene, camera, width, height).result()
        except self._error as error:
            raise RenderError(
                f"OpenGL could not draw {scene.id} ({error}); use the renderer rasteriser."
            ) from error

    def close(self) -> None:
        """Give back the graphics card's memory and end the thread."""
        self._owner.submit(self._release).result()
        self._owner.shutdown()

    @abstractmethod
    def _start(self) -> None:
        """Make the context."""

    @abstractmethod
    def _draw(self, scene: Scene, camera: Camera | MapCamera, width: int, height: int) -> Frame:
        """Return the picture of `scene`."""

    @abstractmethod
    def _release(self) -> None:
        """Give back what the context holds."""
