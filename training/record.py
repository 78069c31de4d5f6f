"""Records the expert's dialogues in training rooms, under every way of being shown them, as training arrays.

python -m training.record OUT ROOMS...

ROOMS are folders that `render-agent make-rooms` wrote. Runs lie in OUT/runs/ROOMS/ARM, what is trained on
in OUT/ROOMS. Typed again it goes on: finished runs stay, others are continued.
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

HOW = "--engine scripted --image-size 320x240 --max-batched-turns 0 --quiet".split()


def record(out: Path, rooms: Path, share: float, seed: int, model: str = "expert") -> Path:
    """Record all arms in one folder of rooms and return the folder of what is trained on.

    share: of each arm's questions. model: the policy that replies.
    subprocess.CalledProcessError where a run fails.
    """
    count = sum(1 for _ in (rooms / "questions.jsonl").open())
    files = []
    for number, (arm, (part, options)) in enumerate(SHARES.items()):
        folder = out / "runs" / rooms.name / arm
        messages = folder / "messages.jsonl"
        if not messages.is_file():
            limit = max(1, round(count * part * share))
            drawn = "--limit", str(limit), "--seed", str(seed + number)
            _run(folder, rooms, ("--model", model, *options, *drawn))
            _call(
                "export",
                "recent",
                "--output",
                str(folder),
                "--format",
                "messages",
                "--to",
                str(messages),
            )
        files.append(messages)
    made = out / rooms.name
    subprocess.run(
        [sys.executable, "-m", "training.encode", str(made), *map(str, files)], check=True
    )
    return made


def _run(folder: Path, rooms: Path, options: tuple[str, ...]) -> None:
    """Make a run of the expert, or continue the one that was cut off."""
    where = "--output", str(folder)
    if folder.is_dir() and any(folder.iterdir()):
        _call("--continue", "recent", "--quiet", *where)
        return
    benchmark = "--batch", "--benchmark", str(rooms / "questions.jsonl"), "--shuffle"
    _call(*benchmark, *HOW, *options, *where)


def _call(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "render_agent", *arguments], check=True)


def main() -> None:
    """Record the rooms named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("out", type=Path)
    parser.add_argument("rooms", type=Path, nargs="+")
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--model", default="expert", help="the policy of --engine scripted")
    asked = parser.parse_args()
    for rooms in asked.rooms:
        print(record(asked.out, rooms, asked.share, asked.seed, asked.model), flush=True)


if __name__ == "__main__":
    main()
