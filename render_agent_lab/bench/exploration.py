"""Runs of the policy `seeker` in bundled or generated rooms, and the number of moves until it finds the named objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from render_agent.dialogue.state import QuestionState
from render_agent.options import RunConfig
from render_agent.runs.phase_controller import NullObserver
from render_agent.runs.read import RunData
from render_agent.runs.runner import start_run
from render_agent.score.intervals import ratio
from render_agent_lab.oracles.question_visibility import QuestionVisibility
from render_agent_lab.room_generator.command import QUESTIONS, make_rooms
from render_agent_lab.verifier_training.train import train

# `seeker` makes random moves until it has seen the objects named in the question.
SEEKER: Mapping[str, Any] = {
    "batch": True,
    "engine": "scripted",
    "model": "seeker",
    "temperature": 1.0,
    "views": "free",
}

TRAINING_SEED = 1000
TRAINING_QUESTIONS = 1  # per room and type


def explore(output: Path, benchmark: str, agent: str, verifier: str, **options: Any) -> RunData:
    """Let the seeker explore while a verifier chooses its moves; return the run."""
    settings = {"max_turns": 9, "image_size": (320, 240), **options, **SEEKER}
    config = RunConfig(
        benchmark=benchmark, output=str(output), agent=agent, verifier=(verifier,), **settings
    )
    run = start_run(config)
    try:
        run.go(NullObserver())
    finally:
        run.close()
    return RunData(run.path)


def make_question_file(folder: Path, count: int, seed: int, per_type: int = 3) -> str:
    """Generate rooms and return their question file. Any seed except 3 gives rooms other than the bundled ones."""
    make_rooms(folder, count, seed, per_type)
    return str(folder / QUESTIONS)


def train_verifier(folder: Path, rooms: int, seed: int = 0, **options: Any) -> Path:
    """Train a verifier on a run with random choice in newly generated rooms, all in `folder`; return it."""
    questions = make_question_file(
        folder / "rooms", rooms, TRAINING_SEED + seed, TRAINING_QUESTIONS
    )
    run = explore(folder / "runs", questions, "lookahead:8", "random", seed=seed, **options)
    train([run], folder / "head")
    return folder / "head"


def moves_until_found(state: QuestionState, visibility: QuestionVisibility) -> int:
    """Return the number of moves until the views had clearly shown every object named in the question.

    0 if the opening views show them; `max_turns` if they were never shown. The question must name an object with a box.
    """
    remaining = visibility.things(state.question)
    for turn in state.turns:
        remaining -= visibility.seen(state.question, turn.views)
        if not remaining:
            return turn.number
    return state.max_turns


def estimate(values: ArrayLike, scenes: Sequence[str]) -> dict[str, Any] | None:
    """Return the mean of values (n,), its 95 % interval over scenes, and n. NaN values are ignored."""
    numbers = np.asarray(values, np.float64)
    is_known = np.isfinite(numbers)
    ratio_estimate = ratio(numbers[is_known], np.asarray(scenes, object)[is_known].tolist())
    if ratio_estimate is None:
        return None
    interval, _ = ratio_estimate.interval_and_p(1)
    return {"mean": float(ratio_estimate.mean), "interval": interval, "n": int(is_known.sum())}
