"""Whether `--reproducible on` holds on this machine: transcripts of the same questions in different batches, shards, and resumed.

    python -m render_agent_lab.bench.reproducible --output render_agent_lab/bench/results/reproducible.md

Each run is a process of its own. One is killed with SIGKILL when half of its turns are logged, and resumed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from render_agent_lab.bench.full_scale import kill_after_lines
from render_agent_lab.bench.harness import OUTPUT, machine, publish, table

BATCH_SIZES = (1, 3, 16)
COMPARED_FIELDS = ("turn", "messages", "reply", "action", "outcome", "camera", "views")
PROGRAM = (sys.executable, "-m", "render_agent")


def transcripts(folder: Path) -> dict[str, list[list[object]]]:
    """Return the turns of every question of all runs in a folder."""
    found: dict[str, list[list[object]]] = {}
    for log in folder.glob("*/turns.jsonl"):
        for line in map(json.loads, log.read_text("utf-8").splitlines()):
            turn = [line.get(name) for name in COMPARED_FIELDS]
            found.setdefault(line["question_id"], []).append(turn)
    return found


def play(folder: Path, options: tuple[str, ...]) -> dict[str, list[list[object]]]:
    """Run the program; return its transcripts."""
    command = [*PROGRAM, "--batch", *options, "--output", str(folder), "--quiet"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return transcripts(folder)


def play_killed(
    folder: Path, options: tuple[str, ...], lines: int
) -> dict[str, list[list[object]]]:
    """Run the program, kill it after some turns, and resume it; return its transcripts."""
    command = [*PROGRAM, "--batch", *options, "--output", str(folder), "--quiet"]
    kill_after_lines(command, folder, lines)
    resumed = [*PROGRAM, "--continue", "recent", "--output", str(folder), "--quiet"]
    subprocess.run(resumed, check=True, stdout=subprocess.DEVNULL)
    return transcripts(folder)


@click.command()
@click.option("--questions", default=64, show_default=True, help="Number of dialogues.")
@click.option("--model", default="small", show_default=True, help="Model of --engine transformers.")
@click.option("--temperature", default=0.7, show_default=True)
@OUTPUT
def main(questions: int, model: str, temperature: float, output: Path | None) -> None:
    """Count the transcripts that differ from those of a run with one dialogue at a time."""
    options = (
        *("--benchmark", "rooms", "--limit", str(questions), "--model", model, "--device", "cpu"),
        *("--reproducible", "on", "--temperature", str(temperature), "--image-size", "96x64"),
        *("--max-turns", "4"),
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        runs = {
            f"batch size {size}": play(folder / f"{size}", (*options, "--batch-size", str(size)))
            for size in BATCH_SIZES
        }
        expected = runs["batch size 1"]
        for part in (1, 2):
            shard = (*options, "--shard", f"{part}/2", "--batch-size", "16")
            runs["two shards"] = play(folder / "shards", shard)
        lines = sum(map(len, expected.values())) // 2
        runs["killed and resumed"] = play_killed(folder / "killed", options, lines)
    rows = [
        (
            what,
            len(found),
            sum(map(len, found.values())),
            sum(found.get(question) != turns for question, turns in expected.items()),
        )
        for what, found in runs.items()
    ]
    circumstances = f"--model {model}, temperature {temperature}; {machine()}"
    head = ("run", "dialogues", "turns", "transcripts that differ")
    publish(output, "Reproducible runs on the CPU", table(head, rows), circumstances)


if __name__ == "__main__":
    main()
