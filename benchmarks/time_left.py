"""How true the time left is that a run tells: read at 10, 25, 50 and 75 % of runs of different kinds.

    python benchmarks/time_left.py --output benchmarks/results/time_left
    render-agent make-rooms --to rooms --count 24 --seed 77
    python benchmarks/time_left.py --benchmark rooms/questions.jsonl --times 3 --output benchmarks/results/time_left_long

A reading holds where it is within a factor of 1.5 of the time that the run really took from then on; of a range, its
middle is. The time left is told from the second second on in the place of the fifth, as runs over the bundled rooms are short;
with --benchmark, whose runs are longer, it is told as the program does. With
--processor the clock is the processor's time of this process, which other programs do not change. With
--replay FILE nothing is run: the turn times of runs are read that --record FILE wrote, so that two ways to tell can
be compared in seconds. All runs are in one folder, so that those of a model that asked before know how long its
dialogues were, unless --alone is given.
"""

from __future__ import annotations

import json
import math
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
from render_agent.dialogue.state import QuestionState, Turn  # noqa: E402
from render_agent.engines.base import longest_reply  # noqa: E402
from render_agent.runs import forecast  # noqa: E402
from render_agent.runs.forecast import Dialogue, Forecast  # noqa: E402
from render_agent.runs.progress import TOLD_SECONDS, Progress  # noqa: E402
from render_agent.runs.runner import finish_together, start_run  # noqa: E402
from render_agent.text.console import plain_console  # noqa: E402
from render_agent.text.display import Quiet  # noqa: E402

SHARES = (0.10, 0.25, 0.50, 0.75)
FACTOR = 1.5
KNOWN_SECONDS, SOON_SECONDS = forecast.KNOWN_SECONDS, 2.0
"""A time is told from so many seconds on, by the program and in runs over the bundled rooms."""
LONG_SECONDS = 40.0
"""Who waits longer wants to be told something at a quarter of the time."""

Range = tuple[float, float]
Told = tuple[float, list[Range | None]]
"""The seconds of a run from its first turn on, and what it said was left at each share, None where nothing."""

SCRIPTED = {"engine": "scripted", "model": "wanderer", "max_turns": 24, "limit": 72}
RULE = {"engine": "scripted", "model": "explorer", "image_size": "800x600"}
SMALL = {"engine": "transformers", "model": "small"}
KINDS: dict[str, dict[str, Any]] = {
    "scripted, default phases": SCRIPTED,
    "scripted, no batched turns": {**SCRIPTED, "max_batched_turns": 0, "batch_size": 16},
    "scripted, all turns batched": {**SCRIPTED, "max_batched_turns": 24, "batch_size": 16},
    "scripted, one after the other": {**SCRIPTED, "max_batched_turns": 0, "finish_together": 1},
    "scripted, 16 turns, batches of ten": {**SCRIPTED, "max_turns": 16, "limit": 108, "batch_size": 10},
    "scripted, three samples a turn": {**SCRIPTED, "agent": "vote:3", "temperature": 1.0},
    "scripted, ends by rule, 20 turns": {**RULE, "max_turns": 20, "agent": "vote:3", "temperature": 1.0},
    "small model, default phases": SMALL,
    "small model, no batched turns": {**SMALL, "max_batched_turns": 0},
    "small model, batches of four": {**SMALL, "limit": 100, "batch_size": 4},
    "small model, one after the other": {**SMALL, "limit": 100, "max_batched_turns": 0, "finish_together": 1},
    "small model, sampled, three side by side": {**SMALL, "limit": 100, "shuffle": True, "temperature": 1.0, "seed": 2, "finish_together": 3},
}  # fmt: skip


class Readings(Progress):
    """Writes down what the time left was after each turn."""

    def took(self, state: QuestionState, turn: Turn) -> None:
        """Take the turn and read the clock."""
        super().took(state, turn)
        at, finishing = round(self.elapsed, 2), int(self.phase == "finishing")
        ends, tokens = int(not state.active), turn.tokens.reply
        self.turns.append((at, self.places[state.id], ends, turn.batch_size, finishing, tokens))
        self.readings.append((at, self.told))

    turns: list[tuple[float, int, int, int, int, int]]
    readings: list[tuple[float, Range | None]]


def read(
    name: str,
    output: Path,
    record: list[dict[str, Any]],
    benchmark: str,
    times: int,
    *,
    alone: bool,
) -> Told:
    """Return what a run of a kind told, with so many times its limit of questions, and record its turns."""
    options = {"batch": True, "benchmark": benchmark, **KINDS[name], "output": output}
    if "limit" in options:
        options["limit"] *= times
    config = RunConfig(**checked(options))
    run = start_run(config.absolute())
    earlier = [] if alone else run.earlier_dialogues()
    recorded = {
        "max_turns": config.max_turns,
        "batched_turns": run.max_batched_turns,
        "finish_together": finish_together(config),
        "longest": longest_reply(config.max_new_tokens, config.thinking_budget),
    }
    observer = Readings(
        run.states,
        Quiet(plain_console(stderr=True)),
        max_batched_turns=run.max_batched_turns,
        max_turns=config.max_turns,
        finish_together=finish_together(config),
        longest=longest_reply(config.max_new_tokens, config.thinking_budget),
        earlier=earlier,
    )
    observer.turns, observer.readings = [], []
    try:
        run.go(observer)
    finally:
        run.close()
    kinds = {observer.places[state.id]: state.question.type for state in run.states}
    record.append(
        {"run": name, "told_from": forecast.KNOWN_SECONDS}
        | {"earlier": [[d.kind, len(d.replies), sum(d.replies)] for d in earlier]}
        | {"kinds": [kinds[place] for place in sorted(kinds)]}
        | recorded
        | {"turns": observer.turns}
    )
    return told_at(observer.readings, observer.readings[-1][0])


def replay(recorded: dict[str, Any], *, alone: bool) -> Told:
    """Return of a recorded run what `read` returns of a run, told from the same second on, or sooner."""
    forecast.KNOWN_SECONDS = min(KNOWN_SECONDS, recorded.get("told_from", KNOWN_SECONDS))
    earlier = [
        Dialogue(kind, [tokens / turns] * turns)
        for kind, turns, tokens in recorded["earlier"]
        if not alone
    ]
    forecasted = Forecast(
        recorded["max_turns"],
        [Dialogue(kind, active=True) for kind in recorded["kinds"]],
        earlier,
        recorded["batched_turns"],
        recorded["finish_together"],
        recorded["longest"],
    )
    finished, readings, due = 0, [], 0.0
    for at, place, ends, batch, finishing, tokens in recorded["turns"]:
        if finishing != finished:
            forecasted.began_phase()
        finished = finishing
        forecasted.took(place, batch, at, tokens, ended=bool(ends))
        if at >= due:
            readings.append((at, forecasted.range))
            due = at + TOLD_SECONDS
    return told_at(readings, recorded["turns"][-1][0])


def told_at(readings: Sequence[tuple[float, Range | None]], took: float) -> Told:
    """Return the seconds of a run, which took so many, and what was told at each share of it."""
    told = []
    for share in SHARES:
        before = [left for at, left in readings if at <= share * took]
        told.append(before[-1] if before else None)
    return took, told


def as_row(name: str, measured: Told) -> dict[str, Any]:
    """Return the row of a run: at each share the shortest and the longest time told, over the true one."""
    seconds, told = measured
    return {"run": name, "seconds": round(seconds, 1)} | {
        f"{share:.0%}": None
        if left is None
        else [round(e / (1 - share) / seconds, 3) for e in left]
        for share, left in zip(SHARES, told, strict=True)
    }


def verdict(rows: Sequence[dict[str, Any]]) -> str:
    """Return how many readings hold, in words."""
    told = [row[f"{share:.0%}"] for row in rows for share in SHARES if row[f"{share:.0%}"]]
    sharp = [both for both in told if both[1] <= forecast.SHARP_RANGE * both[0]]
    wide = [both for both in told if both not in sharp]
    silent = [
        row
        for row in rows
        for share in SHARES[1:]
        if row["seconds"] > LONG_SECONDS and not row[f"{share:.0%}"]
    ]
    return (
        f"{sum(map(holds, told))} of {len(told)} readings are within a factor of {FACTOR}:"
        f" {sum(map(holds, sharp))} of {len(sharp)} where one number is told,"
        f" {sum(map(holds, wide))} of {len(wide)} where a range is (the true time lies in"
        f" {sum(low <= 1 <= high for low, high in wide)} of them);"
        f" nothing is told in {len(silent)} readings at 25 % or later of runs that take more than {LONG_SECONDS:g} s"
    )


def middle(both: Sequence[float]) -> float:
    """Return the geometric mean of the ends of a range."""
    return math.sqrt(math.prod(both))


def holds(both: Sequence[float]) -> bool:
    """Whether what was told, over what was true, is near 1."""
    return 1 / FACTOR <= middle(both) <= FACTOR


def cell(both: Sequence[float] | None) -> str:
    """Return a reading in the table."""
    if both is None:
        return "–"
    wide = both[1] > forecast.SHARP_RANGE * both[0]
    return f"*{middle(both):.2f}*" if wide else f"{middle(both):.2f}"


@click.command()
@click.option(
    "--output", type=click.Path(path_type=Path), default=None, help="FILE without its ending."
)
@click.option(
    "--only", default="", help="Kinds whose name holds this text; other rows are kept as they are."
)
@click.option("--processor", is_flag=True, help="Count the processor's time of this process.")
@click.option("--alone", is_flag=True, help="Tell of each run as if none had been before it.")
@click.option("--replay", "recorded", type=click.Path(path_type=Path), help="Recorded turns.")
@click.option("--record", type=click.Path(path_type=Path), help="Where to write turns.")
@click.option("--benchmark", default="rooms", help="What is asked.")
@click.option(
    "--times", default=1, help="How many times as many questions, where a kind has a limit."
)
def main(
    output: Path | None,
    only: str,
    processor: bool,
    alone: bool,
    recorded: Path | None,
    record: Path | None,
    benchmark: str,
    times: int,
) -> None:
    """Measure and write the table."""
    if benchmark == "rooms":
        forecast.KNOWN_SECONDS = SOON_SECONDS
    if processor:
        Readings.clock = staticmethod(time.process_time)
    kept = output.with_suffix(".json") if output else None
    rows: dict[str, dict[str, Any]] = {}
    if only and kept and kept.exists():
        rows = {row["run"]: row for row in json.loads(kept.read_text())["rows"]}
    runs: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        kinds: dict[str, Callable[[], Told]] = {
            name: partial(read, name, Path(folder), runs, benchmark, times, alone=alone)
            for name in KINDS
        }
        if recorded:
            runs = json.loads(recorded.read_text())
            kinds = {run["run"]: partial(replay, run, alone=alone) for run in runs}
        for name, measure in kinds.items():
            if only in name:
                rows[name] = as_row(name, measure())
                print(json.dumps(rows[name], ensure_ascii=False), flush=True)
    if record:
        record.write_text("[" + ",\n".join(json.dumps(run) for run in runs) + "]\n")
    table = [rows[name] for name in kinds if name in rows]
    held_out = [
        row for row in table if row["run"] in {run["run"] for run in runs if run.get("held_out")}
    ]
    told = f"Told over true, at so much of the run. {verdict(table)}."
    if held_out:
        told += f" Of the {len(held_out)} runs over rooms of another seed (†): {verdict(held_out)}."
    longer = "" if benchmark == "rooms" else f" --benchmark {benchmark} --times {times}"
    words = [
        "# The time left that a run tells",
        "",
        f"`python benchmarks/time_left.py{' --processor' * processor}{' --alone' * alone}{f' --replay {recorded}' if recorded else ''}{longer} --output {output}`",
        "",
        f"{told} In italics: the middle of a range. A dash: nothing was told yet.",
        "",
        "| run | seconds | " + " | ".join(f"{share:.0%}" for share in SHARES) + " |",
        "|--|--:|" + "--:|" * len(SHARES),
    ]
    for row in table:
        cells = [cell(row[f"{share:.0%}"]) for share in SHARES]
        mark = " †" if row in held_out else ""
        words.append(f"| {row['run']}{mark} | {row['seconds']} | " + " | ".join(cells) + " |")
    clock = " Seconds are the processor's, since other programs ran meanwhile." * (
        processor or recorded is not None
    )
    told_from = f"A time is told from {KNOWN_SECONDS:g} s on."
    if recorded:
        told_from = f"A time is told from {KNOWN_SECONDS:g} s on, and from {SOON_SECONDS:g} s on where no number of rooms is named."
    elif not longer:
        told_from = f"A time is told from {SOON_SECONDS:g} s on, in the place of {KNOWN_SECONDS:g}."
    words += ["", f"{platform.platform()}, Python {platform.python_version()}. {told_from}{clock}"]
    text = "\n".join(words) + "\n"
    print(text)
    if output is not None:
        output.with_suffix(".md").write_text(text)
        output.with_suffix(".json").write_text(json.dumps({"rows": table}, indent=1) + "\n")


if __name__ == "__main__":
    main()
