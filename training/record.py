"""Records dialogues in training rooms, under every way of being shown them, as training arrays.

python -m training.record OUT ROOMS... [--model POLICY | --learner DIRECTORY]

ROOMS are folders that `render-agent make-rooms` wrote. The expert's dialogues are learned as they are, a learner's
with what the expert would have replied in its place. Runs lie in OUT/runs/ROOMS/ARM, what is trained on in OUT/ROOMS.
Typed again it goes on: finished runs stay, others are continued.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

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
"""By arm, of a folder's questions the share that is asked, and the options of the run."""

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
    """Record all arms in one folder of rooms and return the folder of what is trained on.

    share: of each arm's questions. model: the policy that replies. learner: the model that replies instead, and
    is corrected by the expert. subprocess.CalledProcessError where a run fails.
    """
    who = (*SCRIPTED, model) if learner is None else (*LEARNING, str(learner))
    count = sum(1 for _ in (rooms / "questions.jsonl").open())
    files = []
    for number, (arm, (part, options)) in enumerate(SHARES.items()):
        folder = out / "runs" / rooms.name / arm
        messages = folder / "messages.jsonl"
        if not messages.is_file():
            limit = max(1, round(count * part * share))
            drawn = "--limit", str(limit), "--seed", str(seed + number)
            _run(folder, rooms, (*who, *options, *drawn))
            if learner is None:
                kind = "--format", "messages", "--to", str(messages)
                _call("export", "recent", "--output", str(folder), *kind)
            else:
                _python("training.practice", folder, messages)
        files.append(messages)
    made = out / rooms.name
    _python("training.encode", made, *files)
    return made


def _run(folder: Path, rooms: Path, options: tuple[str, ...]) -> None:
    """Make a run, or continue the one that was cut off."""
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
    parser.add_argument("--model", default="expert", help="the policy of --engine scripted")
    parser.add_argument("--learner", type=Path, help="a model that replies, and is corrected")
    asked = parser.parse_args()
    for rooms in asked.rooms:
        made = record(asked.out, rooms, asked.share, asked.seed, asked.model, asked.learner)
        print(made, flush=True)


if __name__ == "__main__":
    main()
