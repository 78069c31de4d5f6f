"""VSI-Bench at full scale with the scripted engine: time, memory, and a run killed three times.

    python benchmarks/full_scale.py --questions test.jsonl --annotations DIR --output results/full_scale

Runs so many of the questions on rooms built from the official annotations, each in a process of its
own, then all of them once more killed with -9 three times on the way and continued. Writes a table
and JSON.

    python benchmarks/full_scale.py … --against TREE --rounds 2 --output results/full_scale_versions

TREE is a work tree of another version of the program: all questions are run by it and by this version in turn.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import click

SIZES = (500, 1000, 2500, 5130)
KEPT = ("turn", "messages", "reply", "action", "happened", "stood", "camera", "views")
"""What must be equal in two runs of the same questions."""


TREE = Path(__file__).resolve().parents[1]
"""The work tree of this version."""


class Benchmark:
    """The runs of one measurement, in one folder, by the program in the work tree `tree`."""

    def __init__(
        self, folder: Path, questions: str, annotations: str, size: str, tree: Path = TREE
    ) -> None:
        self.folder = folder
        self.place: dict[str, Any] = {
            "cwd": tree,
            "env": os.environ | {"PYTHONPATH": str(tree.resolve())},
        }
        self.command = [
            *(sys.executable, "-m", "render_agent", "--batch", "--quiet", "--engine", "scripted"),
            *("--questions", str(Path(questions).resolve())),
            *("--annotations", str(Path(annotations).resolve()), "--image-size", size),
        ]

    def run(self, name: str, *options: str) -> dict[str, Any]:
        """Run the program to its end in a process of its own; return what it took."""
        output = self.folder / name
        began = time.perf_counter()
        process = subprocess.Popen([*self.command, "--output", str(output), *options], **self.place)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
        if os.waitstatus_to_exitcode(status):
            raise SystemExit(f"the run in {output} failed")
        (path,) = output.glob("*_batched")
        results = json.loads((path / "results.json").read_text())
        turns = results["totals"]["turns"]
        drawing = results["totals"]["seconds"]["rendering"]
        return {
            "questions": len(results["questions"]),
            "turns": turns,
            "seconds": seconds,
            "processor_seconds": usage.ru_utime + usage.ru_stime,
            "milliseconds_a_turn": 1000 * seconds / turns,
            "milliseconds_drawing_a_turn": 1000 * drawing / turns,
            "peak_megabytes": usage.ru_maxrss / 1024,
            "folder_megabytes": sum(f.stat().st_size for f in path.rglob("*") if f.is_file()) / 1e6,
            "path": str(path),
        }

    def run_killed(self, name: str, lines: int, kills: int = 3) -> dict[str, Any]:
        """Run it all, killed with -9 at equal parts of the way; return how fast it went on each time."""
        output = self.folder / name
        starts = []
        line = [*self.command, "--output", str(output)]
        for number in range(1, kills + 1):
            starts.append(self._until(line, output, lines * number // (kills + 1)))
            which = ["--continue", "recent", "--output", str(output), "--quiet"]
            line = [sys.executable, "-m", "render_agent", *which]
        subprocess.run(line, check=True, **self.place)
        (path,) = output.glob("*_batched")
        return {"kills": kills, "seconds_to_go_on": starts[1:], "path": str(path)}

    def _until(self, line: list[str], output: Path, lines: int) -> float:
        """Run until the log holds so many lines, then kill; return when the first new one came."""
        before = _lines(output)
        began = time.perf_counter()
        process = subprocess.Popen(line, **self.place)
        first = None
        while process.poll() is None and (now := _lines(output)) < lines:
            if first is None and now > before:
                first = time.perf_counter() - began
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.wait()
        return first if first is not None else time.perf_counter() - began


def _lines(output: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in output.glob("*_batched/turns.jsonl"))


def transcripts(path: str) -> dict[tuple[str, int], dict[str, Any]]:
    """Return every turn of a run without what may differ: time and batches."""
    turns = {}
    with Path(path, "turns.jsonl").open() as file:
        for text in file:
            line = json.loads(text)
            turns[line["question_id"], line["turn"]] = {name: line[name] for name in KEPT}
    return turns


def same_outcome(one: str, other: str) -> bool:
    """Whether two runs said the same and came to the same results."""
    results = [json.loads(Path(path, "results.json").read_text()) for path in (one, other)]
    for found in results:
        found.pop("totals")
    return results[0] == results[1] and transcripts(one) == transcripts(other)


@click.command()
@click.option("--questions", required=True, help="VSI-Bench's test.jsonl.")
@click.option("--annotations", required=True, help="The folder of the official annotations.")
@click.option("--image-size", default="320x240", show_default=True)
@click.option("--sizes", default=",".join(map(str, SIZES)), show_default=True)
@click.option("--against", type=click.Path(exists=True, path_type=Path), help="Another work tree.")
@click.option("--rounds", type=click.IntRange(1), default=1, show_default=True)
@click.option("--output", type=Path, help="Written as OUTPUT.md and OUTPUT.json.")
def main(
    questions: str,
    annotations: str,
    image_size: str,
    sizes: str,
    against: Path | None,
    rounds: int,
    output: Path | None,
) -> None:
    """Measure runs of growing size, a blind one, and one that is killed three times; or two versions in turn."""
    if against is not None:
        taken = in_turn([against, TREE], questions, annotations, image_size, rounds)
        pair = about(image_size) | {"taken": taken}
        write(output, pair, compared(pair))
        return
    with tempfile.TemporaryDirectory(prefix="full-scale-") as folder:
        bench = Benchmark(Path(folder), questions, annotations, image_size)
        rows = [bench.run(f"run{count}", "--limit", count) for count in sizes.split(",")[:-1]]
        rows.append(bench.run("whole"))
        blind = bench.run("blind", "--views", "none")
        killed = bench.run_killed("killed", rows[-1]["turns"])
        same = same_outcome(rows[-1]["path"], killed["path"])
    for row in (*rows, blind, killed):
        del row["path"]  # of a folder that is gone
    found = about(image_size) | {
        "runs": rows,
        "blind": blind,
        "killed": killed | {"same_transcripts_and_results": same},
        "own_peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    write(output, found, report(found))


def about(image_size: str) -> dict[str, Any]:
    """Return what a reader must know of the machine and the command."""
    return {
        "command": "python " + shlex.join(sys.argv),
        "machine": f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "date": time.strftime("%Y-%m-%d"),
        "load": os.getloadavg(),
        "image_size": image_size,
    }


def write(output: Path | None, found: dict[str, Any], text: str) -> None:
    """Print the page, and write it and the figures."""
    print(text)
    if output is not None:
        output.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n")
        output.with_suffix(".md").write_text(text)


def in_turn(
    trees: list[Path], questions: str, annotations: str, size: str, rounds: int
) -> list[dict[str, Any]]:
    """Run all questions by each version in turn, its kernels compiled before; return what each run took."""
    taken = []
    for number in range(rounds + 1):
        for tree in trees:
            told = ["git", "-C", str(tree), "rev-parse", "--short", "HEAD"]
            name = subprocess.run(told, check=True, capture_output=True, text=True).stdout.strip()
            load = os.getloadavg()[0]
            with tempfile.TemporaryDirectory(prefix="full-scale-") as folder:
                bench = Benchmark(Path(folder), questions, annotations, size, tree)
                row = bench.run("run", *(() if number else ("--limit", "20")))
            del row["path"]
            taken.append({"round": number, "version": name, "load": load} | row)
    return [row for row in taken if row["round"]]


def compared(pair: dict[str, Any]) -> str:
    """Return what two versions took as Markdown."""
    lines = [
        "# VSI-Bench at full scale by two versions in turn",
        "",
        f"Rooms from the official annotations, {pair['image_size']}; {pair['machine']}; {pair['date']}.",
        "",
        "| round | version | load | questions | turns | seconds | processor seconds | peak MB |",
        "|--:|---|--:|--:|--:|--:|--:|--:|",
    ]
    lines += [
        f"| {row['round']} | {row['version']} | {row['load']:.1f} | {row['questions']:,} | {row['turns']:,} |"
        f" {row['seconds']:.1f} | {row['processor_seconds']:.1f} | {row['peak_megabytes']:.0f} |"
        for row in pair["taken"]
    ]
    return "\n".join([*lines, "", f"    {pair['command']}", ""])


def report(found: dict[str, Any]) -> str:
    """Return the figures as Markdown."""
    lines = [
        "# VSI-Bench at full scale with the scripted engine",
        "",
        f"Rooms from the official annotations, {found['image_size']}; {found['machine']};"
        f" {found['date']}; load {found['load'][0]:.1f}.",
        "",
        "| questions | turns | seconds | ms a turn | of which drawing | peak MB | folder MB |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in (*found["runs"], found["blind"]):
        blind = " (blind)" if row is found["blind"] else ""
        lines.append(
            f"| {row['questions']:,}{blind} | {row['turns']:,} | {row['seconds']:.0f} |"
            f" {row['milliseconds_a_turn']:.1f} | {row['milliseconds_drawing_a_turn']:.1f} |"
            f" {row['peak_megabytes']:.0f} | {row['folder_megabytes']:.0f} |"
        )
    killed = found["killed"]
    starts = ", ".join(f"{seconds:.1f}" for seconds in killed["seconds_to_go_on"])
    same = "the same" if killed["same_transcripts_and_results"] else "NOT the same"
    lines += [
        "",
        f"Killed with -9 {killed['kills']} times and continued: {same} transcripts and results as"
        f" undisturbed; the first new turn came {starts} s after --continue was typed.",
        "",
        f"    {found['command']}",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
