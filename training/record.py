"""Records dialogues in training rooms, under every view option, as training arrays.

python -m training.record OUT ROOMS... [--model POLICY | --learner DIRECTORY]

ROOMS are folders written by `render-agent make-rooms`. Dialogues of the expert are learned as they are, those of a learner
with the replies the expert would have given. Runs are stored in OUT/runs/ROOMS/ARM, training data in OUT/ROOMS. Running
the same command again keeps finished runs and resumes the others.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

# By arm: the share of a folder's questions to ask, and the options of the run.
ARMS: dict[str, tuple[float, tuple[str, ...]]] = {
    "free": (0.6, ()),
    "start": (0.3, ("--views", "start")),
    "four": (0.2, ("--views", "four")),
    "top": (0.15, ("--views", "top")),
    "random-walk": (0.1, ("--views", "random-walk")),
    "none": (0.2, ("--views", "none")),
    "black": (0.02, ("--image-stress", "black")),
    "black-start": (0.03, ("--image-stress", "black", "--views", "start")),
}

RUN_OPTIONS = "--image-size 320x240 --quiet".split()

EXPERT_OPTIONS = "--engine scripted --max-batched-turns 0 --model".split()

LEARNER_OPTIONS = "--no-guide --model".split()


def record(
    out: Path,
    rooms: Path,
    share: float,
    seed: int,
    model: str = "expert",
    learner: Path | None = None,
) -> Path:
    """Record all arms for one folder of rooms and return the folder of training data."""
    engine_options = (
        (*EXPERT_OPTIONS, model) if learner is None else (*LEARNER_OPTIONS, str(learner))
    )
    num_questions = sum(1 for _ in (rooms / "questions.jsonl").open())
    files = []
    for index, (arm, (arm_share, options)) in enumerate(ARMS.items()):
        folder = out / "runs" / rooms.name / arm
        messages = folder / "messages.jsonl"
        if not messages.is_file():
            limit = max(1, round(num_questions * arm_share * share))
            selection = "--limit", str(limit), "--seed", str(seed + index)
            _start_or_resume(folder, rooms, (*engine_options, *options, *selection))
            if learner is None:
                target = "--format", "messages", "--to", str(messages)
                _render_agent("export", "recent", "--output", str(folder), *target)
            else:
                _run_module("training.practice", folder, messages)
        files.append(messages)
    data_folder = out / rooms.name
    _run_module("training.encode", data_folder, *files)
    return data_folder


def _start_or_resume(folder: Path, rooms: Path, options: tuple[str, ...]) -> None:
    """Start a run, or resume an interrupted one."""
    output = "--output", str(folder)
    if folder.is_dir() and any(folder.iterdir()):
        _render_agent("--continue", "recent", "--quiet", *output)
        return
    benchmark = "--batch", "--benchmark", str(rooms / "questions.jsonl"), "--shuffle"
    _render_agent(*benchmark, *RUN_OPTIONS, *options, *output)


def _render_agent(*arguments: str) -> None:
    _run_module("training.run", *arguments)


def _run_module(module: str, *arguments: str | Path) -> None:
    subprocess.run([sys.executable, "-m", module, *map(str, arguments)], check=True)


def main() -> None:
    """Record the rooms named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("out", type=Path)
    parser.add_argument("rooms", type=Path, nargs="+")
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--model", default="expert", help="policy of --engine scripted")
    parser.add_argument(
        "--learner", type=Path, help="model that replies and is corrected by the expert"
    )
    arguments = parser.parse_args()
    for rooms in arguments.rooms:
        folder = record(
            arguments.out,
            rooms,
            arguments.share,
            arguments.seed,
            arguments.model,
            arguments.learner,
        )
        print(folder, flush=True)


if __name__ == "__main__":
    main()
