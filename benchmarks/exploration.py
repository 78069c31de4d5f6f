"""Runs of the policy `seeker` in bundled or generated rooms, and how many moves it needs to find what questions name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from render_agent.dialogue.state import QuestionState
from render_agent.options import RunConfig
from render_agent.runs.phase_controller import Silent
from render_agent.runs.read import RunData
from render_agent.runs.runner import start_run
from render_agent.score.intervals import ratio
from render_agent_lab.oracles.question_visibility import QuestionVisibility
from render_agent_lab.room_generator.command import QUESTIONS, make_rooms
from render_agent_lab.verifier_training.train import train

SEEKER: Mapping[str, Any] = {
    "batch": True,
    "engine": "scripted",
    "model": "seeker",
    "temperature": 1.0,
    "views": "free",
}
"""`seeker` makes random moves until it has seen what a question names."""

TRAINING_SEED = 1000
TRAINING_QUESTIONS = 10  # per room


def walk(output: Path, benchmark: str, agent: str, verifier: str, **options: Any) -> RunData:
    """Let the seeker explore with a verifier choosing its moves; return the run.

    Args:
        output: Where the run folder is written.
        benchmark: `rooms` or a file of questions.
        agent: As for `--agent`.
        verifier: As for `--verifier`.
        options: More options of the run.
    """
    given = {"max_turns": 9, "image_size": (320, 240), **options, **SEEKER}
    config = RunConfig(
        benchmark=benchmark, output=str(output), agent=agent, verifier=(verifier,), **given
    )
    run = start_run(config)
    try:
        run.go(Silent())
    finally:
        run.close()
    return RunData(run.path)


def made_rooms(folder: Path, count: int, seed: int, questions: int = 20) -> str:
    """Make rooms and return the file of their questions; any seed but 3 differs from the bundled rooms."""
    make_rooms(folder, count, seed, questions)
    return str(folder / QUESTIONS)


def trained_verifier(folder: Path, rooms: int, seed: int = 0, **options: Any) -> Path:
    """Return a learned verifier trained on a run with random choice in rooms made for it, all in `folder`."""
    questions = made_rooms(folder / "rooms", rooms, TRAINING_SEED + seed, TRAINING_QUESTIONS)
    run = walk(folder / "runs", questions, "lookahead:8", "random", seed=seed, **options)
    train([run], folder / "head")
    return folder / "head"


def moves_until_found(state: QuestionState, visibility: QuestionVisibility) -> int:
    """Return the number of moves after which the views had clearly shown all that the question names.

    0 if the opening shows it; `max_turns` if it was never shown. The question must name something with a box.
    """
    missing = visibility.things(state.question)
    for turn in state.turns:
        missing -= visibility.seen(state.question, turn.views)
        if not missing:
            return turn.number
    return state.max_turns


def estimate(values: ArrayLike, scenes: Sequence[str]) -> dict[str, Any] | None:
    """Return the mean of values (n,), its 95 % interval over scenes, and n; NaN is left out."""
    found = np.asarray(values, np.float64)
    known = np.isfinite(found)
    estimated = ratio(found[known], np.asarray(scenes, object)[known].tolist())
    if estimated is None:
        return None
    interval, _ = estimated.interval_and_p(1)
    return {"mean": float(estimated.mean), "interval": interval, "n": int(known.sum())}
