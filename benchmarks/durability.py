"""What it costs that a run's lines and pictures survive a power cut: runs with and without the syncs, side by side.

    python benchmarks/durability.py --repeats 5 --output FILE.json

Every pair is two runs of the same questions of the bundled rooms in one process, with `fsync` as it is and with one that
returns at once, in turns first. Paces: `scripted` answers at once, so that nothing hides a sync; `as an H100` is the same
with the pause that Qwen3-VL-8B takes there (benchmarks/results/gpu.md: 628 turns in 28.1 s, 64 at a time); `the small
model` is the bundled model on this processor. Told are the seconds of the runs and, as these differ by tens of percent where
others use the machine, what the loop of turns waits for the disk: its own syncs, and pictures that are not written yet. The
cost is how much longer it waits with the syncs than without, as a share of the run.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import click

TURN_SECONDS = 28.1 / 628
"""Of an H100 for one turn, among 64 dialogues."""

PACES = {"scripted": (32, 0.0), "as an H100": (32, TURN_SECONDS), "the small model": (6, 0.0)}
"""By pace: how many questions are asked, and the seconds that a turn takes beside what this machine takes."""


def one_run(place: Path, pace: str, *, synced: bool) -> dict[str, float]:
    """Return what a run takes: seconds, seconds of those that its loop waits for the disk, turns, and syncs."""
    from render_agent.config import RunConfig
    from render_agent.engines.base import Engine
    from render_agent.engines.registry import make_engine
    from render_agent.observation.picture_store import Pictures
    from render_agent.runs.phase_controller import Silent
    from render_agent.runs.runner import start_run

    count, pause = PACES[pace]
    small = pace == "the small model"
    engine: dict[str, Any] = (
        {"engine": "transformers", "model": "small"} if small else {"engine": "scripted"}
    )
    config = RunConfig(
        batch=True, benchmark="rooms", output=str(place), limit=count, max_turns=5, **engine
    )

    def paced(config: RunConfig, questions: Any) -> Engine:
        made: Any = make_engine(config, questions)
        answer = getattr(made, "answer", None)

        def slow(requests: Any) -> Any:
            time.sleep(pause * len(requests))
            return answer(requests)  # type: ignore[misc]

        if pause:
            made.answer = slow
        return made  # type: ignore[no-any-return]

    sync, written, waited, syncs = os.fsync, Pictures.written, 0.0, 0

    def counted(number: int) -> None:
        nonlocal waited, syncs
        syncs += 1
        began = time.perf_counter()
        if synced:
            sync(number)
        if threading.current_thread() is threading.main_thread():
            waited += time.perf_counter() - began

    def waiting(pictures: Pictures, files: Any) -> dict[str, str]:
        nonlocal waited
        began = time.perf_counter()
        found = written(pictures, files)
        waited += time.perf_counter() - began
        return found

    os.fsync, Pictures.written = counted, waiting  # type: ignore[assignment, method-assign]
    began = time.perf_counter()
    try:
        run = start_run(config)
        run.go(Silent(), paced)
        run.close()
    finally:
        os.fsync, Pictures.written = sync, written  # type: ignore[method-assign]
    seconds = time.perf_counter() - began
    turns = sum(len(state.turns) for state in run.states)
    return {"seconds": seconds, "waited": waited, "turns": turns, "syncs": syncs}


def measured(repeats: int, pace: str) -> dict[str, Any]:
    """Return the pairs of runs at one pace, and what the syncs cost, in percent of a run: the median and the range."""
    pairs = []
    with tempfile.TemporaryDirectory(prefix="durability-", dir=Path.cwd()) as folder:
        one_run(Path(folder), pace, synced=True)  # whatever is loaded once is loaded
        for repeat in range(repeats):
            order = (True, False) if repeat % 2 else (False, True)
            pairs.append({synced: one_run(Path(folder), pace, synced=synced) for synced in order})
    costs = [100 * (p[True]["waited"] - p[False]["waited"]) / p[False]["seconds"] for p in pairs]
    whole = [100 * (p[True]["seconds"] / p[False]["seconds"] - 1) for p in pairs]

    def median(name: str, synced: bool) -> float:
        return round(statistics.median(pair[synced][name] for pair in pairs), 3)

    return {
        "repeats": repeats,
        "turns": pairs[0][True]["turns"],
        "syncs": pairs[0][True]["syncs"],
        "seconds": [median("seconds", True), median("seconds", False)],
        "waited": [median("waited", True), median("waited", False)],
        "percent": [round(statistics.median(costs), 2), round(min(costs), 2), round(max(costs), 2)],
        "percent_of_seconds": [
            round(statistics.median(whole), 1),
            round(min(whole), 1),
            round(max(whole), 1),
        ],
    }


def sync_milliseconds() -> float:
    """Return what one sync of a small file takes on this disk, the median of 50."""
    took = []
    with tempfile.NamedTemporaryFile(dir=Path.cwd()) as file:
        for _ in range(50):
            file.write(bytes(20_000))
            file.flush()
            began = time.perf_counter()
            os.fsync(file.fileno())
            took.append(time.perf_counter() - began)
    return round(1e3 * statistics.median(took), 2)


@click.command()
@click.option("--repeats", default=5, show_default=True, help="Pairs of runs at each pace.")
@click.option("--only", multiple=True, type=click.Choice(list(PACES)), help="These paces alone.")
@click.option("--output", type=Path, required=True)
def main(repeats: int, only: tuple[str, ...], output: Path) -> None:
    """Measure every pace and write the figures."""
    found = {
        "sync_milliseconds": sync_milliseconds(),
        "paces": {pace: measured(repeats, pace) for pace in only or PACES},
    }
    output.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    click.echo(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
