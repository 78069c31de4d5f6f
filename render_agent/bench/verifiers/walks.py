"""Runs to measure verifiers on: a policy that seeks what questions name, with candidates that all are drawn."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from render_agent.config import RunConfig
from render_agent.controller import Silent
from render_agent.run_log.folder import RunFolder
from render_agent.runner import start

DECIDED: Mapping[str, Any] = {
    "batch": True,
    "engine": "scripted",
    "model": "seeker",
    "temperature": 1.0,
    "views": "free",
}
"""Options of these runs: `seeker` makes random moves until it has seen what a question names."""


def walk(output: Path, benchmark: str, agent: str, verifier: str, **options: Any) -> RunFolder:
    """Let the seeker explore, its moves chosen by a verifier; return the run.

    benchmark: `rooms` or a file of questions. agent: as `--agent` has it. SetupError where something is
    missing.
    """
    given = {"max_turns": 9, "image_size": (320, 240), **options, **DECIDED}
    config = RunConfig(
        benchmark=benchmark, output=str(output), agent=agent, verifier=(verifier,), **given
    )
    run = start(config)
    try:
        run.go(Silent())
    finally:
        run.close()
    return run.log.folder


def made_rooms(folder: Path, count: int, seed: int, questions: int = 20) -> str:
    """Make rooms that are not the bundled ones; return the file of their questions.

    ValueError for the seed of the bundled rooms. SetupError where they cannot be written.
    """
    from render_agent.rooms.command import QUESTIONS, SEED, make_rooms

    if seed == SEED:
        raise ValueError(f"the rooms of seed {SEED} are the bundled ones, which are held out")
    make_rooms(folder, count, seed, questions)
    return str(folder / QUESTIONS)
