"""Engines that installed packages bring, beside the program's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from render_agent import registry as plugins
from render_agent.config import OPTIONS, RunConfig
from render_agent.dialogue.state import Question
from render_agent.engines.base import Engine

OWN: tuple[str, ...] = OPTIONS["engine"].metadata["choices"]
"""The names of the program's own engines."""


def describe(config: RunConfig) -> dict[str, Any]:
    """Return what a run records of the engine: its package, and what its `describe(config)` tells, if any.

    SetupError where it cannot be imported, and whatever its `describe` raises.
    """
    maker = plugins.load("engine", config.engine, OWN)
    tell = getattr(maker, "describe", None)
    return {
        "name": config.engine,
        "model": config.model or config.engine,
        "package": plugins.package("engine", config.engine, OWN),
        **(tell(config) if callable(tell) else {}),
    }


def make(config: RunConfig, questions: Sequence[Question]) -> Engine:
    """Return the engine, made of the options and the questions. SetupError where it cannot be made."""
    engine: Engine = plugins.make("engine", config.engine, Engine, config, questions, own=OWN)
    return engine
