"""The renderer that an option names, and what makes those that need a library of their own."""

from __future__ import annotations

import ctypes.util
from collections.abc import Callable

from render_agent import registry
from render_agent.errors import SetupError
from render_agent.extras import require
from render_agent.render.base import Renderer


def make_renderer(name: str = "rasteriser") -> Renderer:
    """Return the renderer that the registry has under a name.

    Raises SetupError where there is no such renderer, or where this machine lacks what it needs.
    """
    renderer: Renderer = registry.make("renderer", name)
    return renderer


def check_renderer(name: str) -> None:
    """Raise SetupError where a renderer of the program lacks a library here; nothing is loaded or begun."""
    if name == "raycast":
        require("the renderer raycast", "open3d")
    elif name in ("pyrender", "moderngl"):
        _require_opengl(name)


def make_ray_caster() -> Renderer:
    """Return the renderer by Open3D's ray casting. SetupError where that is not installed."""
    require("the renderer raycast", "open3d")
    try:
        from render_agent.render.raycast import RayCaster

        return RayCaster()
    except (ImportError, OSError) as error:
        raise SetupError(
            f"The renderer raycast cannot load open3d ({error}); on Debian: "
            "apt-get install libgl1 libgomp1 libusb-1.0-0."
        ) from error


def make_pyrender() -> Renderer:
    """Return the renderer by pyrender. SetupError where OpenGL does not start."""

    def make() -> Renderer:
        from render_agent.render.opengl.pyrender_renderer import Pyrender

        return Pyrender()

    return _opengl("pyrender", make)


def make_moderngl() -> Renderer:
    """Return the renderer by ModernGL. SetupError where OpenGL does not start."""

    def make() -> Renderer:
        from render_agent.render.opengl.moderngl_renderer import ModernGL

        return ModernGL()

    return _opengl("moderngl", make)


def _require_opengl(name: str) -> None:
    require(f"the renderer {name}", name)
    if not ctypes.util.find_library("EGL"):
        raise SetupError(
            f"The renderer {name} needs the system library libEGL; on Debian: "
            "apt-get install libegl1 libgl1-mesa-dri; or use the renderer rasteriser."
        )


def _opengl(name: str, make: Callable[[], Renderer]) -> Renderer:
    _require_opengl(name)
    try:
        return make()
    except Exception as error:  # drivers and bindings raise anything, AssertionError included
        raise SetupError(
            f"The renderer {name} could not start OpenGL through EGL "
            f"({type(error).__name__}: {error}); use the renderer rasteriser."
        ) from error
