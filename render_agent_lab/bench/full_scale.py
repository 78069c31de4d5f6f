"""VSI-Bench at full scale with the scripted engine: time, memory, and a run killed three times.

    python -m render_agent_lab.bench.full_scale --questions test.jsonl --annotations DIR --output render_agent_lab/bench/results/full_scale.md

Runs subsets of the questions on rooms built from the official annotations, each in its own process. Then runs all of them
again, killed with SIGKILL three times and resumed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import click

from render_agent_lab.bench.harness import OUTPUT, machine, publish, table

# Log fields that must be equal in two runs of the same questions.
COMPARED_FIELDS = ("turn", "messages", "reply", "action", "happened", "stood", "camera", "views")

HEAD = "questions|turns|seconds|ms per turn|rendering (ms)|CPU seconds|peak MB|folder MB".split("|")


def measure_run(command: list[str], output: Path, *options: str) -> list[str]:
    """Run the program in its own process; return a row of the table."""
    started_at = time.perf_counter()
    process = subprocess.Popen([*command, "--output", str(output), *options])
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - started_at
    if os.waitstatus_to_exitcode(status):
        raise SystemExit(f"the run in {output} failed")
    (path,) = output.glob("*_batched")
    results = json.loads((path / "results.json").read_text())
    turns, drawing = results["totals"]["turns"], results["totals"]["seconds"]["rendering"]
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    blind = " (blind)" if "none" in options else ""
    return [
        f"{len(results['questions']):,}{blind}",
        f"{turns:,}",
        f"{seconds:.0f}",
        f"{1000 * seconds / turns:.1f}",
        f"{1000 * drawing / turns:.1f}",
        f"{usage.ru_utime + usage.ru_stime:.0f}",
        f"{usage.ru_maxrss / 1024:.0f}",
        f"{size / 1e6:.0f}",
    ]


def measure_restarts(command: list[str], output: Path, lines: int, kills: int = 3) -> list[float]:
    """Run it all, killed with SIGKILL at equal intervals; return the seconds from each restart to its first new turn."""
    starts = []
    line = [*command, "--output", str(output)]
    for number in range(1, kills + 1):
        starts.append(kill_after_lines(line, output, lines * number // (kills + 1)))
        line = [*command[:3], "--continue", "recent", "--output", str(output), "--quiet"]
    subprocess.run(line, check=True)
    return starts[1:]


def kill_after_lines(command: list[str], output: Path, lines: int) -> float:
    """Run until the log has N lines, then kill; return the seconds until the first new line."""
    before, started_at, first = count_log_lines(output), time.perf_counter(), None
    process = subprocess.Popen(command)
    while process.poll() is None and (num_lines := count_log_lines(output)) < lines:
        if first is None and num_lines > before:
            first = time.perf_counter() - started_at
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    return first if first is not None else time.perf_counter() - started_at


def count_log_lines(output: Path) -> int:
    """Return the number of log lines of the run in a folder."""
    return sum(path.read_bytes().count(b"\n") for path in output.glob("*_batched/turns.jsonl"))


def outcome(output: Path) -> tuple[Any, dict[tuple[str, int], dict[str, Any]]]:
    """Return the results and transcripts of a run, without timings and batch sizes."""
    (path,) = output.glob("*_batched")
    results = json.loads((path / "results.json").read_text())
    del results["totals"]
    lines = map(json.loads, (path / "turns.jsonl").read_text().splitlines())
    return results, {
        (line["question_id"], line["turn"]): {name: line[name] for name in COMPARED_FIELDS}
        for line in lines
    }


@click.command()
@click.option("--questions", required=True, help="VSI-Bench's test.jsonl.")
@click.option("--annotations", required=True, help="Folder of the official annotations.")
@click.option("--image-size", default="320x240", show_default=True)
@click.option(
    "--sizes", default="500,1000,2500", show_default=True, help="Subset sizes to run first."
)
@OUTPUT
def main(
    questions: str, annotations: str, image_size: str, sizes: str, output: Path | None
) -> None:
    """Measure runs of increasing size, a blind run, and one that is killed three times."""
    command = [sys.executable, "-m", "render_agent", "--batch", "--quiet", "--engine", "scripted"]
    command += ["--questions", questions, "--annotations", annotations, "--image-size", image_size]
    with tempfile.TemporaryDirectory(prefix="full-scale-") as place:
        folder = Path(place)
        rows = [measure_run(command, folder / size, "--limit", size) for size in sizes.split(",")]
        rows.append(measure_run(command, folder / "whole"))
        rows.append(measure_run(command, folder / "blind", "--views", "none"))
        starts = measure_restarts(command, folder / "killed", count_log_lines(folder / "whole"))
        is_same = outcome(folder / "whole") == outcome(folder / "killed")
    lines = [
        f"Rooms from the official annotations, views of {image_size}.",
        "",
        *table(HEAD, rows),
        "",
        f"Killed with SIGKILL {len(starts) + 1} times and resumed: transcripts and results are"
        f" {'identical' if is_same else 'NOT identical'}; the first new turn came"
        f" {', '.join(f'{s:.1f}' for s in starts)} s after --continue.",
    ]
    publish(
        output, "VSI-Bench at full scale with the scripted engine", lines, machine("numpy", "numba")
    )


if __name__ == "__main__":
    main()
