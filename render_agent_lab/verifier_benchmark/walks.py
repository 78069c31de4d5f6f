"""Runs to measure verifiers on: the policy `seeker`, with every candidate drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from render_agent.config import RunConfig
from render_agent.runs.log.folder import RunFolder
from render_agent.runs.phase_controller import Silent
from render_agent.runs.runner import start_run

DECIDED: Mapping[str, Any] = {
    "batch": True,
    "engine": "scripted",
    "model": "seeker",
    "temperature": 1.0,
    "views": "free",
}
"""Options of these runs: `seeker` makes random moves until it has seen what a question names."""


TRAINING_SEED = 1000
"""The seed of the first rooms that a head is trained in; that of the bundled rooms is smaller."""

TRAINING_QUESTIONS = 10
"""Questions about each of these rooms."""


def walk(output: Path, benchmark: str, agent: str, verifier: str, **options: Any) -> RunFolder:
    """Let the seeker explore, its moves chosen by a verifier; return the run.

    benchmark: `rooms` or a file of questions. agent: as `--agent` has it. SetupError where something is
    missing.
    """
    walked = {"max_turns": 9, "image_size": (320, 240), **options, **DECIDED}
    config = RunConfig(
        benchmark=benchmark, output=str(output), agent=agent, verifier=(verifier,), **walked
    )
    run = start_run(config)
    try:
        run.go(Silent())
    finally:
        run.close()
    return run.log.folder


def made_rooms(folder: Path, count: int, seed: int, questions: int = 20) -> str:
    """Make rooms that are not the bundled ones; return the file of their questions.

    ValueError for the seed of the bundled rooms. SetupError where they cannot be written.
    """
    from render_agent_lab.room_generator.command import QUESTIONS, SEED, make_rooms

    if seed == SEED:
        raise ValueError(f"the rooms of seed {SEED} are the bundled ones, which are held out")
    make_rooms(folder, count, seed, questions)
    return str(folder / QUESTIONS)


def trained_here(
    folder: Path, rooms: int, report: Callable[[str], None], seed: int = 0, **options: Any
) -> Path:
    """Return a learned verifier that was trained on a run in rooms made for it, all in `folder`.

    rooms: how many. seed: of the run; with it that of the rooms changes. options: of the run. Its features need no weights.
    """
    from render_agent_lab.verifier_training.train import train

    report(f"{rooms} rooms are made to train a head in")
    questions = made_rooms(folder / "rooms", rooms, TRAINING_SEED + seed, TRAINING_QUESTIONS)
    report("these rooms are explored")
    run = walk(folder / "runs", questions, "lookahead:8", "random", seed=seed, **options)
    train([run], folder / "head", report=report)
    return folder / "head"
