"""A soak: the bundled rooms are explored again and again in one process; what it holds must not grow.

    python benchmarks/soak.py --turns 50000 --output benchmarks/results/soak

Every pass is a whole run, started, taken to its end and read back, with views that are really drawn and a scripted
explorer in the small model's place; each has a seed of its own, so that no view comes twice. Sampled after each:
resident memory (once the allocator gave back what is free: what it keeps varies by a third from pass to pass), open
files, threads, child processes, and the bytes of the log a turn. Written are the slopes by
least squares, the first passes left out, in which whatever is loaded once is loaded.
"""

from __future__ import annotations

import gc
import json
import os
import platform
import shlex
import shutil
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import click

WARMING = 0.2
"""The share of the passes that is left out of the slopes."""

FLAT = {
    "megabytes": 1.0,
    "open_files": 0.1,
    "threads": 0.1,
    "children": 0.1,
    "log_bytes_a_turn": 5.0,
}
"""What each may grow by in 1,000 turns and still count as flat: less than that is the noise of a pass."""

WORDS = {
    "megabytes": "resident memory, MB",
    "open_files": "open files",
    "threads": "threads",
    "children": "child processes",
    "log_bytes_a_turn": "log, bytes a turn",
}


def one_pass(place: Path, number: int, size: tuple[int, int], limit: int | None) -> dict[str, int]:
    """Take all questions to their end in a run of its own; return its turns and the bytes of its log."""
    from render_agent.config import RunConfig
    from render_agent.runs.log.folder import RunFolder
    from render_agent.runs.log.program_log import program_log
    from render_agent.runs.log.reader import results_of
    from render_agent.runs.phase_controller import Silent
    from render_agent.runs.runner import start_run

    config = RunConfig(
        batch=True,
        benchmark="rooms",
        engine="scripted",
        model="explorer",
        image_size=size,
        output=str(place),
        seed=number,
        limit=limit,
    )
    run = start_run(config.absolute())
    with program_log(run.path / "run.log", verbose=True):
        try:
            found = run.go(Silent())
        finally:
            run.close()
    read_back = results_of(RunFolder(run.path))
    if found["counts"]["failed"] or read_back != found:
        raise SystemExit(f"pass {number} failed: {found['counts']}")
    logs = [run.path / "turns.jsonl", run.path / "run.log"]
    written = sum(path.stat().st_size for path in logs if path.exists())
    shutil.rmtree(run.path)
    return {"turns": found["totals"]["turns"], "bytes": written}


def held() -> dict[str, float]:
    """Return what this process holds now."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    tasks = [*Path("/proc/self/task").iterdir()]
    children = [child for task in tasks for child in (task / "children").read_text().split()]
    return {
        "megabytes": pages * os.sysconf("SC_PAGE_SIZE") / 1e6,
        "open_files": len(os.listdir("/proc/self/fd")) - 1,  # noqa: PTH208 - less the one of listing
        "threads": max(len(tasks), threading.active_count()),
        "children": len(children),
    }


def slope(samples: list[dict[str, float]], name: str) -> dict[str, float]:
    """Return what a figure grows by in 1,000 turns, and that slope's standard error."""
    turns = [sample["turns"] / 1000 for sample in samples]
    values = [sample[name] for sample in samples]
    if len(samples) < 3:
        return {"a_1000_turns": 0.0, "error": float("inf")}
    found = statistics.linear_regression(turns, values)
    rest = sum(
        (value - found.slope * turn - found.intercept) ** 2
        for turn, value in zip(turns, values, strict=True)
    )
    spread = statistics.pvariance(turns) * len(turns)
    error = (rest / (len(turns) - 2) / spread) ** 0.5
    return {"a_1000_turns": found.slope, "error": error}


def judged(samples: list[dict[str, float]]) -> dict[str, dict[str, Any]]:
    """Return the figures' slopes, first and last values and peaks, and whether each is flat.

    With fewer than three samples nothing is known, and nothing is flat.
    """
    kept = samples[int(len(samples) * WARMING) :]
    rows = {}
    for name, most in FLAT.items():
        found = slope(kept, name)
        values = [sample[name] for sample in kept]
        rows[name] = {
            **{
                key: round(value, 4) if value < float("inf") else None
                for key, value in found.items()
            },
            "first": round(values[0], 1),
            "last": round(values[-1], 1),
            "most": round(max(values), 1),
            "flat": len(kept) >= 3 and abs(found["a_1000_turns"]) <= most,
        }
    return rows


@click.command()
@click.option("--turns", default=50_000, show_default=True, help="Turns at the least.")
@click.option("--image-size", default="160x120", show_default=True)
@click.option("--limit", type=int, help="Questions a pass (default: all 160).")
@click.option("--first", default=0, show_default=True, help="Seed of the first pass.")
@click.option("--output", type=Path, help="Written as OUTPUT.md and OUTPUT.json, after each pass.")
def main(turns: int, image_size: str, limit: int | None, first: int, output: Path | None) -> None:
    """Explore again and again, and write what the process held; exit code 1 where something grew."""
    width, height = (int(part) for part in image_size.split("x"))
    samples: list[dict[str, float]] = []
    began, done = time.perf_counter(), 0
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        while done < turns:
            found = one_pass(Path(folder), first + len(samples), (width, height), limit)
            done += found["turns"]
            sample = {"turns": float(done), "log_bytes_a_turn": found["bytes"] / found["turns"]}
            samples.append(sample | held())
            click.echo(f"{done:,} turns, {samples[-1]['megabytes']:.0f} MB", err=True)
            record = {
                "command": "python " + shlex.join(sys.argv),
                "machine": f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}",
                "date": time.strftime("%Y-%m-%d"),
                "image_size": image_size,
                "turns": done,
                "passes": len(samples),
                "seconds": round(time.perf_counter() - began, 1),
                "figures": judged(samples),
                "samples": [
                    {name: round(value, 2) for name, value in row.items()} for row in samples
                ],
            }
            if output is not None:
                output.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n", "utf-8")
                output.with_suffix(".md").write_text(table(record), "utf-8")
    click.echo(table(record))
    sys.exit(0 if all(row["flat"] for row in record["figures"].values()) else 1)


def table(record: dict[str, Any]) -> str:
    """Return the figures as Markdown."""
    lines = [
        "# A soak in one process",
        "",
        f"{record['turns']:,} turns in {record['passes']} passes over the bundled rooms, {record['image_size']},"
        f" {record['seconds'] / 3600:.2f} hours; {record['machine']}; {record['date']}. The first"
        f" {WARMING:.0%} of the passes are left out of the slopes.",
        "",
        "| figure | first | last | most | grows by, in 1,000 turns | standard error | flat |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, row in record["figures"].items():
        error = "unknown" if row["error"] is None else f"{row['error']:.4f}"
        lines.append(
            f"| {WORDS[name]} | {row['first']:,.1f} | {row['last']:,.1f} | {row['most']:,.1f} |"
            f" {row['a_1000_turns']:+.4f} | {error} | {'yes' if row['flat'] else 'NO'} |"
        )
    most = ", ".join(f"{WORDS[name]} {value:g}" for name, value in FLAT.items())
    return "\n".join(
        [
            *lines,
            "",
            f"Flat: grows by no more in 1,000 turns than: {most}.",
            "",
            f"    {record['command']}",
            "",
        ]
    )


if __name__ == "__main__":
    main()
