"""Which renderers there are, and which of them work on this machine."""

from __future__ import annotations

import ctypes.util

from render_agent import registry as plugins
from render_agent.errors import SetupError
from render_agent.extras import require
from render_agent.render.base import Renderer

NAMES = ("rasteriser", "pyrender", "moderngl", "raycast")


def make_renderer(name: str = "rasteriser") -> Renderer:
    """Return the renderer called `name`, one of NAMES or one that an installed package brings.

    Raises SetupError where there is no such renderer, or where this machine lacks what it needs.
    """
    match name:
        case "rasteriser":
            from render_agent.render.rasteriser.renderer import Rasteriser

            return Rasteriser()
        case "raycast":
            return _ray_caster()
        case "pyrender" | "moderngl":
            return _opengl(name)
        case _:
            brought: Renderer = plugins.make("renderer", name, Renderer, own=NAMES)
            return brought


def available() -> list[tuple[str, bool, str]]:
    """Return each renderer's name, whether it works here, and what draws or what is missing."""
    found = []
    for name in NAMES:
        try:
            renderer = make_renderer(name)
        except SetupError as error:
            found.append((name, False, str(error)))
            continue
        found.append((name, True, _detail(renderer)))
        renderer.close()
    return found


def _detail(renderer: Renderer) -> str:
    match renderer.name:
        case "rasteriser":
            return f"on the processor, {getattr(renderer, 'threads', 1)} threads; meshes and clouds"
        case "raycast":
            return "Open3D's ray casting; meshes only"
        case _:
            return f"OpenGL through EGL, {getattr(renderer, 'device', 'unknown device')}"


def _ray_caster() -> Renderer:
    require("the renderer raycast", "open3d")
    try:
        from render_agent.render.raycast import RayCaster

        return RayCaster()
    except (ImportError, OSError) as error:
        raise SetupError(
            f"The renderer raycast cannot load open3d ({error}); on Debian: "
            "apt-get install libgl1 libgomp1 libusb-1.0-0."
        ) from error


def _opengl(name: str) -> Renderer:
    require(f"the renderer {name}", name)
    if not ctypes.util.find_library("EGL"):
        raise SetupError(
            f"The renderer {name} needs the system library libEGL; on Debian: "
            "apt-get install libegl1 libgl1-mesa-dri; or use the renderer rasteriser."
        )
    try:
        if name == "pyrender":
            from render_agent.render.opengl.pyrender_renderer import Pyrender

            return Pyrender()
        from render_agent.render.opengl.moderngl_renderer import ModernGL

        return ModernGL()
    except Exception as error:  # drivers and bindings raise anything, AssertionError included
        raise SetupError(
            f"The renderer {name} could not start OpenGL through EGL "
            f"({type(error).__name__}: {error}); use the renderer rasteriser."
        ) from error
