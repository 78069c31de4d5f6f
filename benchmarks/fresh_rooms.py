"""Does a freshly trained verifier choose better than chance in rooms that nobody has seen?

    python benchmarks/fresh_rooms.py --output benchmarks/results/fresh_rooms

What `benchmarks/choosing.py` measures, once more where nothing was ever tried: rooms made from other seeds to
train in and others to test in, more of them than the eight that are bundled, another seed of the dialogues.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from choosing import Row, arm, fewer, figure, rows_of, told_of, within

from render_agent.runs.log.folder import RunFolder
from render_agent_lab.verifier_benchmark.walks import made_rooms, trained_here, walk

TRAINED, TESTED, SEED = 777, 9000, 5
"""What is added to the seed of the rooms to train in; the seed of those to test in; that of the dialogues."""

SMALL: Mapping[str, Any] = {"image_size": (160, 120)}


def explored(place: Path, asked: Path, verifier: str) -> RunFolder:
    """Return a finished run about the rooms, made now where it is not there yet."""
    for results in sorted(place.glob("*/results.json")):
        return RunFolder(results.parent)
    return walk(place, str(asked), "lookahead:4", verifier, seed=SEED, **SMALL)


@click.command()
@click.option("--training-rooms", default=16, show_default=True)
@click.option("--rooms", default=24, show_default=True, help="Rooms to test in, 4 questions each.")
@click.option("--runs", help="Where the runs are kept; those that are there are not made again.")
@click.option("--output", help="Write OUTPUT.json and OUTPUT.md.")
def main(training_rooms: int, rooms: int, runs: str | None, output: str | None) -> None:
    """Train in some fresh rooms, explore others with every verifier, and set them against each other."""
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(runs or scratch)
        head = place / "training" / "head"
        if not (head / "verifier.json").is_file():
            trained_here(place / "training", training_rooms, click.echo, seed=TRAINED, **SMALL)
        asked = place / "test" / "questions.jsonl"
        if not asked.is_file():
            made_rooms(asked.parent, rooms, TESTED, 4)
        arms = {"random": "random", "learned": f"learned:{head}"}
        arms |= {"unnamed": "geometry:unnamed", "geometry": "geometry"}
        found: dict[str, Mapping[str, Row]] = {}
        for label, verifier in arms.items():
            found[label] = rows_of(explored(place / label, asked, verifier))
            click.echo(f"{label}: {len(found[label])} questions")
    chance = found["random"]
    record = {
        "command": " ".join(["python", "benchmarks/fresh_rooms.py", *told_of(sys.argv[1:])]),
        "training_rooms": training_rooms,
        "scenes": len({row["scene"] for row in chance.values()}),
        "verifiers": {name: arm(rows, 1) for name, rows in found.items()},
        "less_than_random": {
            name: fewer(rows, chance) for name, rows in found.items() if rows is not chance
        },
    }
    text = table(record)
    click.echo(text)
    if output:
        Path(output + ".json").write_text(json.dumps(record, indent=1) + "\n", "utf-8")
        Path(output + ".md").write_text(text, "utf-8")


def table(record: Mapping[str, Any]) -> str:
    """Return the figures as Markdown."""
    lines = [
        "# Choosing among moves in rooms that nobody has seen",
        "",
        f"{record['verifiers']['random']['questions']} questions about {record['scenes']} rooms made for it;"
        f" `learned` was trained in {record['training_rooms']} others, a quarter of them held out. Four random moves a turn, one seed, views"
        " of 160x120 pixels. Moves: until all that is named was seen well, 9 where it never was. In brackets"
        " 95 % intervals over rooms, by the jackknife; p, at least 0.0001: over ways to exchange the sides of whole rooms. `unnamed`"
        " is `geometry:unnamed`; `geometry` knows the boxes by which it is measured.",
        "",
        "| verifier | moves | all found, % | decisions | fewer moves than `random` | p |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for name, entry in record["verifiers"].items():
        gap = record["less_than_random"].get(name)
        told = (
            f"{gap['fewer']:+.2f} ({within(gap['over_scenes'])}) | {max(gap['p'], 1e-4):.4f}"
            if gap
            else " | "
        )
        lines.append(
            f"| `{name}` | {figure(entry['moves'], 1, '.2f')} | {figure(entry['found'], 100, '.1f')} |"
            f" {entry['decisions']} | {told} |"
        )
    return "\n".join([*lines, "", f"    {record['command']}", ""])


if __name__ == "__main__":
    main()
