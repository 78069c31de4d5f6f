"""A vision-language model explores a 3D scan through rendered views and answers spatial questions.

    import render_agent

    dialogue = render_agent.ask("room.ply", "How many chairs are there?", model="small")
    results = render_agent.run(benchmark="rooms", model="small", limit=10)
    results = render_agent.load_run("recent")
    scene = render_agent.open_scene("room.ply")

Names are imported on first use, so that importing the package is fast. To read the code, start with `runs/turn.py`, one turn
of a question, and docs/architecture.md.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from render_agent.api.ask import ask as ask
    from render_agent.api.ask import continue_run as continue_run
    from render_agent.api.ask import run as run
    from render_agent.api.engines import load_engine as load_engine
    from render_agent.api.images import View as View
    from render_agent.api.results import Comparison as Comparison
    from render_agent.api.results import Dialogue as Dialogue
    from render_agent.api.results import RunResults as RunResults
    from render_agent.api.results import load_run as load_run
    from render_agent.api.scenes import OpenScene as OpenScene
    from render_agent.api.scenes import bundled_rooms as bundled_rooms
    from render_agent.api.scenes import open_scene as open_scene
    from render_agent.environments.environment import Environment as Environment
    from render_agent.environments.vector_environment import VectorEnvironment as VectorEnvironment
    from render_agent.errors import RenderAgentError as RenderAgentError
    from render_agent.scans.camera import Camera as Camera

__version__ = "0.2.0"

_PLACES = {
    "ask": "api.ask",
    "run": "api.ask",
    "continue_run": "api.ask",
    "load_run": "api.results",
    "RunResults": "api.results",
    "Comparison": "api.results",
    "Dialogue": "api.results",
    "View": "api.images",
    "load_engine": "api.engines",
    "open_scene": "api.scenes",
    "OpenScene": "api.scenes",
    "bundled_rooms": "api.scenes",
    "Environment": "environments.environment",
    "VectorEnvironment": "environments.vector_environment",
    "Camera": "scans.camera",
    "RenderAgentError": "errors",
}

__all__ = [
    "Camera",
    "Comparison",
    "Dialogue",
    "Environment",
    "OpenScene",
    "RenderAgentError",
    "RunResults",
    "VectorEnvironment",
    "View",
    "ask",
    "bundled_rooms",
    "continue_run",
    "load_engine",
    "load_run",
    "open_scene",
    "run",
]


def __getattr__(name: str) -> Any:
    """Import a public name on first use (PEP 562)."""
    if name not in _PLACES:
        raise AttributeError(f"module 'render_agent' has no attribute {name!r}")
    value = getattr(import_module(f"render_agent.{_PLACES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
