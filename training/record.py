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
SHARES: dict[str, tuple[float, tuple[str, ...]]] = {
    "free": (0.6, ()),
    "start": (0.3, ("--views", "start")),
    "four": (0.2, ("--views", "four")),
    "top": (0.15, ("--views", "top")),
    "random-walk": (0.1, ("--views", "random-walk")),
    "none": (0.2, ("--views", "none")),
    "black": (0.02, ("--pictures", "black")),
    "black-start": (0.03, ("--pictures", "black", "--views", "start")),
}

HOW = "--image-size 320x240 --quiet".split()

SCRIPTED = "--engine scripted --max-batched-turns 0 --model".split()

LEARNING = "--no-guide --model".split()


def record(
    out: Path,
    rooms: Path,
    share: float,
    seed: int,
    model: str = "expert",
    learner: Path | None = None,
) -> Path:
    """Record all arms for one folder of rooms and return the folder of training data.

    Args:
        out: Folder for runs and training data.
        rooms: Folder of rooms.
        share: Factor on each arm's share of questions.
        seed: Seed of the question selection.
        model: Scripted policy that replies.
        learner: Model that replies instead, and is corrected by the expert.

    Raises:
        subprocess.CalledProcessError: A run failed.
    """
    engine_options = (*SCRIPTED, model) if learner is None else (*LEARNING, str(learner))
    count = sum(1 for _ in (rooms / "questions.jsonl").open())
    files = []
    for number, (arm, (part, options)) in enumerate(SHARES.items()):
        folder = out / "runs" / rooms.name / arm
        messages = folder / "messages.jsonl"
        if not messages.is_file():
            limit = max(1, round(count * part * share))
            selection = "--limit", str(limit), "--seed", str(seed + number)
            _run(folder, rooms, (*engine_options, *options, *selection))
            if learner is None:
                kind = "--format", "messages", "--to", str(messages)
                _call("export", "recent", "--output", str(folder), *kind)
            else:
                _python("training.practice", folder, messages)
        files.append(messages)
    folder_of_data = out / rooms.name
    _python("training.encode", folder_of_data, *files)
    return folder_of_data


def _run(folder: Path, rooms: Path, options: tuple[str, ...]) -> None:
    """Start a run, or resume an interrupted one."""
    where = "--output", str(folder)
    if folder.is_dir() and any(folder.iterdir()):
        _call("--continue", "recent", "--quiet", *where)
        return
    benchmark = "--batch", "--benchmark", str(rooms / "questions.jsonl"), "--shuffle"
    _call(*benchmark, *HOW, *options, *where)


def _call(*arguments: str) -> None:
    _python("training.run", *arguments)


def _python(module: str, *arguments: str | Path) -> None:
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
