"""How true the time left is that a run tells: read at 10, 25, 50 and 75 % of runs of different kinds.

    python benchmarks/time_left.py --output benchmarks/results/time_left

A reading holds where it is within a factor of 1.5 of the time that the run really took from then on. With
--processor the clock is the processor's time of this process, which other programs do not change, and the
time left is told from the second second on in the place of the twentieth, as these runs are short. With
--replay FILE nothing is run: the turn times of recorded runs are read, so that two ways to tell can be compared
in seconds.
"""

from __future__ import annotations

import json
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

ROOT = Path(__file__).resolve().parents[1]
sys.path[0] = str(
    ROOT
)  # in the place of this folder, whose coverage.py hides the library of that name

from render_agent.config import RunConfig  # noqa: E402
from render_agent.config.flags import checked  # noqa: E402
from render_agent.dialogue.state import QuestionState, Status, Turn  # noqa: E402
from render_agent.runs import progress  # noqa: E402
from render_agent.runs.progress import Progress  # noqa: E402
from render_agent.runs.runner import start_run  # noqa: E402
from render_agent.text.console import plain_console  # noqa: E402
from render_agent.text.display import Quiet  # noqa: E402

SHARES = (0.10, 0.25, 0.50, 0.75)
FACTOR = 1.5
SOON_SECONDS = 2.0

SCRIPTED = {"engine": "scripted", "model": "wanderer", "max_turns": 24, "limit": 60}
SMALL = {"engine": "transformers", "model": "small"}
KINDS: dict[str, dict[str, Any]] = {
    "scripted, default phases": SCRIPTED,
    "scripted, no batched turns": {**SCRIPTED, "max_batched_turns": 0},
    "scripted, all turns batched": {**SCRIPTED, "max_batched_turns": 24},
    "scripted, one after the other": {**SCRIPTED, "max_batched_turns": 0, "finish_together": 1},
    "scripted, 16 turns, batches of ten": {**SCRIPTED, "max_turns": 16, "limit": 80, "batch_size": 10},
    "scripted, three samples a turn": {**SCRIPTED, "agent": "vote:3", "temperature": 1.0},
    "scripted, ends by rule, 20 turns": {**SCRIPTED, "model": "explorer", "limit": None, "max_turns": 20, "agent": "vote:3", "temperature": 1.0},
    "small model, default phases": SMALL,
    "small model, no batched turns": {**SMALL, "max_batched_turns": 0},
    "small model, batches of four": {**SMALL, "limit": 70, "batch_size": 4},
    "small model, one after the other": {**SMALL, "limit": 60, "max_batched_turns": 0, "finish_together": 1},
    "small model, sampled, three side by side": {**SMALL, "limit": 80, "shuffle": True, "temperature": 1.0, "seed": 2, "finish_together": 3},
}  # fmt: skip


class Readings(Progress):
    """Writes down what the time left was after each turn."""

    def took(self, state: QuestionState, turn: Turn) -> None:
        """Take the turn and read the clock."""
        super().took(state, turn)
        self.readings.append((self.elapsed, self.seconds_left))

    readings: list[tuple[float, float | None]]


def read(options: dict[str, Any], output: Path) -> tuple[float, list[float | None]]:
    """Return the seconds of a run from its first turn on, and what it said was left at each share, None where nothing."""
    config = RunConfig(
        **checked({"batch": True, "benchmark": "rooms", **options, "output": output})
    )
    run = start_run(config.absolute())
    observer = Readings(
        run.states,
        Quiet(plain_console(stderr=True)),
        max_batched_turns=run.max_batched_turns,
        max_turns=config.max_turns,
    )
    observer.readings = []
    try:
        run.go(observer)
    finally:
        run.close()
    return told_at(observer.readings)


class Replayed(Progress):
    """Counts turns that were recorded, at their times."""

    elapsed = 0.0

    def again(self, seconds: float, number: int, ends: int, batch: int) -> None:
        """Take a turn as it was taken."""
        self.elapsed = seconds
        self.passed[number] += 1
        self.reached[number] -= 1
        self.reached[number + 1] += not ends
        self.ended[number] += ends
        self.counts[Status.ACTIVE] -= ends
        self.timed(number, batch)


def replay(recorded: dict[str, Any]) -> tuple[float, list[float | None]]:
    """Return of a recorded run what `read` returns of a run."""
    observer = Replayed(
        (), Quiet(plain_console()), max_batched_turns=0, max_turns=recorded["max_turns"]
    )
    observer.reached[0] = observer.counts[Status.ACTIVE] = recorded["questions"]
    readings = []
    for turn in recorded["turns"]:
        observer.again(*turn)
        readings.append((turn[0], observer.seconds_left))
    return told_at(readings)


def told_at(
    readings: Sequence[tuple[float, float | None]],
) -> tuple[float, list[float | None]]:
    """Return the seconds of a run, and what was told at each share of it."""
    took = readings[-1][0]
    told = []
    for share in SHARES:
        before = [left for at, left in readings if at <= share * took]
        told.append(before[-1] if before else None)
    return took, told


@click.command()
@click.option(
    "--output", type=click.Path(path_type=Path), default=None, help="FILE without its ending."
)
@click.option(
    "--only", default="", help="Kinds whose name holds this text; other rows are kept as they are."
)
@click.option("--processor", is_flag=True, help="Count the processor's time of this process.")
@click.option("--replay", "recorded", type=click.Path(path_type=Path), help="Recorded turns.")
def main(output: Path | None, only: str, processor: bool, recorded: Path | None) -> None:
    """Measure and write the table."""
    if processor or recorded:
        Readings.clock = staticmethod(time.process_time)
        progress.KNOWN_SECONDS = SOON_SECONDS
    kept = output.with_suffix(".json") if output else None
    rows: dict[str, dict[str, Any]] = {}
    if only and kept and kept.exists():
        rows = {row["run"]: row for row in json.loads(kept.read_text())["rows"]}
    with tempfile.TemporaryDirectory() as folder:
        kinds: dict[str, Callable[[], tuple[float, list[float | None]]]] = {
            name: partial(read, options, Path(folder)) for name, options in KINDS.items()
        }
        if recorded:
            kinds = {run["run"]: partial(replay, run) for run in json.loads(recorded.read_text())}
        for name, measure in kinds.items():
            if only not in name:
                continue
            seconds, told = measure()
            rows[name] = {"run": name, "seconds": round(seconds, 1)} | {
                f"{share:.0%}": None if left is None else round(left / (1 - share) / seconds, 2)
                for share, left in zip(SHARES, told, strict=True)
            }
            print(json.dumps(rows[name]), flush=True)
    table = [rows[name] for name in kinds if name in rows]
    ratios = [row[f"{share:.0%}"] for row in table for share in SHARES]
    told_ratios = [ratio for ratio in ratios if ratio is not None]
    held = sum(1 / FACTOR <= ratio <= FACTOR for ratio in told_ratios)
    words = [
        "# The time left that a run tells",
        "",
        f"`python benchmarks/time_left.py{' --processor' * processor}{f' --replay {recorded}' if recorded else ''} --output benchmarks/results/time_left`",
        "",
        f"Told over true, at so much of the run; {held} of {len(told_ratios)} readings are within a factor of {FACTOR}."
        " A dash: nothing was told yet.",
        "",
        "| run | seconds | " + " | ".join(f"{share:.0%}" for share in SHARES) + " |",
        "|--|--:|" + "--:|" * len(SHARES),
    ]
    for row in table:
        cells = [
            "–" if row[f"{share:.0%}"] is None else f"{row[f'{share:.0%}']:.2f}" for share in SHARES
        ]
        words.append(f"| {row['run']} | {row['seconds']} | " + " | ".join(cells) + " |")
    clock = (
        f" Seconds are the processor's, since other programs ran meanwhile; a time is told from {SOON_SECONDS:g} s on."
        if processor or recorded
        else ""
    )
    words += ["", f"{platform.platform()}, Python {platform.python_version()}.{clock}"]
    text = "\n".join(words) + "\n"
    print(text)
    if output is not None:
        output.with_suffix(".md").write_text(text)
        output.with_suffix(".json").write_text(json.dumps({"rows": table}, indent=1) + "\n")


if __name__ == "__main__":
    main()
