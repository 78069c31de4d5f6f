"""The renderer that an option names, and what the machine must have for it."""

from __future__ import annotations

import ctypes.util

from render_agent import registry
from render_agent.errors import SetupError
from render_agent.extras import require
from render_agent.render.renderer import Renderer


def make_renderer(name: str = "rasteriser") -> Renderer:
    """Return the renderer that the registry has under a name.

    Raises SetupError where there is no such renderer, or where this machine lacks what it needs.
    """
    renderer: Renderer = registry.load("renderer", name)()
    return renderer


def check_renderer(name: str) -> None:
    """Raise SetupError where a renderer of the program lacks a library here; nothing is loaded or begun."""
    if name == "pyrender":
        require_opengl(name)


def require_opengl(name: str) -> None:
    """Raise SetupError where a renderer by OpenGL lacks its package or libEGL."""
    require(f"the renderer {name}", name)
    if not ctypes.util.find_library("EGL"):
        raise SetupError(
            f"The renderer {name} needs the system library libEGL; on Debian: "
            "apt-get install libegl1 libgl1-mesa-dri; or use the renderer rasteriser."
        )
