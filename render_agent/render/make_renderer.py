"""Creates the renderer selected by an option, and checks its system requirements."""

from __future__ import annotations

import ctypes.util

from render_agent import registry
from render_agent.errors import SetupError
from render_agent.extras import require
from render_agent.render.renderer import Renderer


def make_renderer(name: str = "rasteriser") -> Renderer:
    """Create a renderer by its name in the registry."""
    renderer: Renderer = registry.load("renderer", name)()
    return renderer


def check_renderer(name: str) -> None:
    """Raise SetupError if a built-in renderer lacks a library on this machine. Loads nothing."""
    if name == "pyrender":
        require_opengl(name)


def require_opengl(name: str) -> None:
    """Raise SetupError if an OpenGL renderer lacks its package or libEGL."""
    require(f"the renderer {name}", name)
    if not ctypes.util.find_library("EGL"):
        raise SetupError(
            f"the renderer {name} needs the system library libEGL: on Debian or Ubuntu, run: apt-get install"
            " libegl1 libgl1-mesa-dri; or use --renderer rasteriser"
        )
