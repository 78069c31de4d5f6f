"""Makes the small model from nothing: rooms, perception, the expert's dialogues, the dialogue, the shipped files.

    python -m training.make WORK [--model DIRECTORY] [--quick]

Every task is a command that can be typed alone; what is finished is left as it is, so that the same command
goes on after an interruption. `clock.jsonl` in WORK has the seconds of every task, piece by piece.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from training.dialogue_file import DIALOGUES
from training.optimizer import WEIGHTS, done
from training.sight import FEATURES
from training.stage_timer import Clock
from training.training_record import write_story

MODEL = Path("render_agent/models/small")

COMMAND = "make train"
"""What makes the shipped model."""

ALONE = (
    "rooms",
    "pictures",
    "inventories",
    "arithmetic",
    "choices",
    "dialogues",
    "mended dialogues",
)
"""Stages whose tasks each keep one processor busy."""

SIDE_BY_SIDE = os.cpu_count() or 1

SEEDS = range(1000, 1004)
"""Seeds of the rooms for training, the last one for practice; 2000 is for validation, 3000 for tests, 3 made the bundled rooms."""

VALIDATION = 2000


@dataclass(frozen=True, slots=True)
class Recipe:
    """How much of everything; the defaults made the shipped model.

    homes: of each seed. visited: of so many seeds' homes the expert's dialogues are recorded; in those of the
    last seed the model's own are corrected, in those of the others answers are told and mended. share,
    practised: of questions that are recorded, of the expert's and of the model's own; see `training.record`.
    Steps and rates by stage; perception's rate falls towards each of its numbers of steps.
    texts, lists: examples of arithmetic and inventories of pictures in a step of the stage of places.
    """

    homes: int = 256
    validation_homes: int = 32
    questions: int = 40
    spacing: float = 0.1
    visited: int = 2
    share: float = 0.2
    practised: float = 0.25
    perception_steps: tuple[int, ...] = (4000,)
    places_steps: int = 2000
    dialogue_steps: int = 3200
    mending_steps: int = 1400
    joint_steps: int = 200
    correction_steps: int = 450
    texts: int = 24
    lists: int = 4
    places_rate: float = 1.5e-3
    dialogue_rate: float = 1e-3
    mending_rate: float = 8e-4
    joint_rate: float = 4e-4
    correction_rate: float = 4e-4
    seed: int = 0


QUICK = Recipe(
    homes=2,
    validation_homes=2,
    questions=8,
    visited=1,
    spacing=0.3,
    perception_steps=(1, 2),
    places_steps=2,
    dialogue_steps=2,
    mending_steps=2,
    joint_steps=2,
    correction_steps=2,
)
"""To try that every stage works."""


@dataclass(frozen=True, slots=True)
class Task:
    """A command of the making, and the file that is there once it is done."""

    command: Sequence[str]
    made: Path


def stages(work: Path, recipe: Recipe, seeds: Sequence[int]) -> dict[str, list[Task]]:
    """Return the tasks of every stage, in the order of the stages; those of one may run side by side."""
    names = [*(f"train-{seed}" for seed in seeds), f"validation-{VALIDATION}"]
    rooms, seen = work / "rooms", work / "perception"
    *trained, practised, held_out = names
    out = work / "model"
    perceived, placed, spoken, mended, joint, corrected = (
        out / f"{name}.pt"
        for name in ("perception", "places", "dialogue", "mending", "joint", "correction")
    )
    heard = [work / "dialogues" / name for name in trained]
    own = work / "practice" / practised
    learner = work / "learner"
    routes, sides, nearest = (work / name for name in ("choices", "names", "nearest"))

    def lessons(*names: str) -> tuple[object, ...]:
        return (
            *("--inventories", *(seen / name for name in names)),
            *("--text", *(work / "text" / name for name in names)),
        )

    def ends(folder: Path, kind: str, *names: str) -> list[Task]:
        return [
            step(folder / name / DIALOGUES, "training.choices", folder / name, kind, rooms / name)
            for name in names
        ]

    def step(made: Path, module: str, *arguments: object) -> Task:
        return Task([sys.executable, "-m", module, *map(str, arguments)], made)

    def seen_by_tower(folder: Path) -> Task:
        return step(folder / FEATURES, "training.sight", perceived, folder)

    def recorded(name: str, *arguments: object) -> Task:
        return step(
            work / "dialogues" / name / DIALOGUES,
            "training.record",
            *(work / "dialogues", rooms / name, "--share", recipe.share, *arguments),
        )

    def homes(name: str) -> Task:
        return step(
            rooms / name / "questions.jsonl",
            "render_agent",
            *("make-rooms", "--output", rooms / name, "--seed", name.split("-")[1]),
            *("--count", recipe.validation_homes if name == held_out else recipe.homes),
            *("--questions", recipe.questions, "--spacing", recipe.spacing),
        )

    return {
        "rooms": [homes(name) for name in names],
        "pictures": [
            step(seen / name / "done", "training.perception_pictures", seen, rooms / name)
            for name in names
        ],
        "perception": [
            step(
                done(perceived, steps),
                "training.perception",
                *(out, "--pictures", *(seen / name for name in trained)),
                *("--validation", seen / held_out, "--steps", steps),
                *("--seed", recipe.seed),
            )
            for steps in recipe.perception_steps
        ],
        "inventories": [
            step(seen / name / DIALOGUES, "training.inventory", seen / name)
            for name in (*trained, practised)
        ],
        "arithmetic": [
            step(
                work / "text" / name / DIALOGUES,
                "training.text_examples",
                work / "text" / name,
                rooms / name,
            )
            for name in (*trained, practised)
        ],
        "features": [seen_by_tower(seen / name) for name in trained],
        "places": [
            step(
                done(placed, recipe.places_steps),
                "training.dialogue",
                *(out, placed.stem, "--start", perceived, *lessons(*trained)),
                *("--scenes", 0, "--texts", recipe.texts, "--lists", recipe.lists),
                *("--steps", recipe.places_steps, "--rate", recipe.places_rate),
                *("--seed", recipe.seed),
            )
        ],
        "dialogues": [recorded(name) for name in trained[: recipe.visited]],
        "mended dialogues": [
            recorded(name, "--model", "stumbler") for name in trained[recipe.visited :]
        ],
        "choices": [
            *ends(routes, "routes", *trained, practised),
            *ends(sides, "names", *trained, practised),
            *ends(nearest, "nearest", practised),
        ],
        "dialogue features": [seen_by_tower(folder) for folder in heard],
        "dialogue": [
            step(
                done(spoken, recipe.dialogue_steps),
                "training.dialogue",
                *(out, spoken.stem, "--start", placed, *lessons(*trained)),
                *("--dialogues", *heard[: recipe.visited]),
                *("--each", 6, "--texts", 6),
                *("--steps", recipe.dialogue_steps, "--rate", recipe.dialogue_rate),
                *("--seed", recipe.seed),
            )
        ],
        "mending": [
            step(
                done(mended, recipe.mending_steps),
                "training.dialogue",
                *(out, mended.stem, "--start", spoken, *lessons(*trained)),
                *("--dialogues", *heard),
                *("--choices", *(routes / name for name in trained)),
                *("--each", 6, "--texts", 6, "--chosen", 12),
                *("--steps", recipe.mending_steps, "--rate", recipe.mending_rate),
                *("--seed", recipe.seed + 1),  # draws other examples than the stage before
            )
        ],
        "joint": [
            step(
                done(joint, recipe.joint_steps),
                "training.dialogue",
                *(out, joint.stem, "--start", mended, *lessons(*trained), "--joint"),
                *("--dialogues", *heard),
                *("--choices", *(one / name for one in (routes, sides) for name in trained)),
                *("--chosen", 12),
                *("--steps", recipe.joint_steps, "--rate", recipe.joint_rate),
                *("--seed", recipe.seed),
            )
        ],
        "learner": [step(learner / WEIGHTS, "training.ship", joint, learner)],
        "practice": [
            step(
                own / DIALOGUES,
                "training.record",
                *(own.parent, rooms / practised, "--share", recipe.practised),
                *("--learner", learner),
            )
        ],
        "correction": [
            step(
                done(corrected, recipe.correction_steps),
                "training.dialogue",
                *(
                    out,
                    corrected.stem,
                    "--start",
                    learner,
                    *lessons(practised),
                    "--joint",
                    "--adamw",
                ),
                *("--dialogues", own),
                *("--choices", *(one / practised for one in (routes, sides, nearest))),
                *("--each", 6, "--texts", 4, "--lists", 4, "--chosen", 6),
                *("--steps", recipe.correction_steps, "--rate", recipe.correction_rate),
                *("--seed", recipe.seed + 2),
            )
        ],
        "ship": [step(shipped(work) / WEIGHTS, "training.ship", corrected, learner, shipped(work))],
    }


def shipped(work: Path) -> Path:
    """Return the folder in which the model is made ready; the one of an earlier making stays till then."""
    return work / "shipped"


def make(
    work: Path,
    recipe: Recipe,
    model: Path,
    seeds: Sequence[int] = SEEDS,
    command: str = COMMAND,
) -> None:
    """Run every task that is not done, and put the model where it belongs.

    command: what was typed, for the card. subprocess.CalledProcessError where a task fails.
    """
    work.mkdir(parents=True, exist_ok=True)
    clock = Clock(work / "clock.jsonl")
    with _alone(work) as held:
        for name, tasks in stages(work, recipe, seeds).items():
            missing = [task for task in tasks if not task.made.is_file()]
            print(f"{name}: {len(missing)} of {len(tasks)} to do", flush=True)
            side_by_side = SIDE_BY_SIDE if name in ALONE else 1
            with ThreadPoolExecutor(side_by_side) as pool:
                list(pool.map(partial(_run, clock, held, name), missing))
        shutil.copytree(shipped(work), model, dirs_exist_ok=True)
        write_story(work, recipe, model, seeds, command)
    print(model)


@contextmanager
def _alone(work: Path) -> Iterator[int]:
    """Wait until nothing is at work in a folder, also no task that outlived its making; give the lock.

    Every task inherits the lock: the system holds it until the last of them has ended.
    """
    with (work / "lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"waiting for what is still at work in {work}", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file.fileno()


def _run(clock: Clock, held: int, stage: str, task: Task) -> None:
    environment = dict(os.environ)
    if stage in ALONE:  # as many processes as processors already
        environment |= {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    clock.run(stage, task.command, environment, (held,))


def main() -> None:
    """Make the model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("work", type=Path)
    parser.add_argument("--model", type=Path, help="where the model is written", default=MODEL)
    parser.add_argument("--quick", action="store_true", help="a few steps of everything, to try it")
    asked = parser.parse_args()
    if asked.quick:
        make(asked.work, QUICK, asked.model, SEEDS[:3], "python -m training.make WORK --quick")
    else:
        make(asked.work, Recipe(), asked.model)


if __name__ == "__main__":
    main()
