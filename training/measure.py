"""How good the small model is: a grid of runs about rooms that it was not trained in, set against each other.

    python -m training.measure --model small --rooms scenes/questions.jsonl --output benchmarks/results/small_model

Typed again it goes on: what is finished is not run again.
"""

from __future__ import annotations

import json
import math
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from render_agent.config import AUTO
from render_agent.config.choice import sha256
from render_agent.engines.checkpoint.locate import find_model
from render_agent.engines.checkpoint.weight_files import weight_files
from render_agent.errors import RenderAgentError
from render_agent.score.means import MEAN_OF_TYPES, MICRO
from render_agent.score.summary import OFFICIAL
from training.grid import ARMS, FREE, MIRRORED, Grid, complete, digest, finished
from training.measured_table import table
from training.outcomes import differences, left_and_right, margin, verdicts
from training.pooled import Pooled, pool

PRIVATE = ("--runs",)
"""Options on which no figure depends."""


@click.command()
@click.option("--model", default="small", show_default=True, help="A directory, or small.")
@click.option(
    "--engine", type=click.Choice(["transformers", "scripted"]), default="transformers",
    show_default=True, help="scripted: to try out with a policy.",
)  # fmt: skip
@click.option(
    "--rooms", required=True, multiple=True, type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Questions about rooms, with their scans beside them; may be given more than once.",
)  # fmt: skip
@click.option(
    "--limit", type=click.IntRange(1), help="So many questions of each file, from all scenes."
)
@click.option("--batch-size", default=AUTO, show_default=True, help="Dialogues in one batch.")
@click.option(
    "--runs", default="experiment_logs/small_model", show_default=True, type=click.Path(path_type=Path),
    help="Where the runs lie; those that are finished are not run again.",
)  # fmt: skip
@click.option("--output", required=True, help="Write OUTPUT.json and OUTPUT.md.")
@click.option(
    "--finished", "as_is", is_flag=True, help="Run nothing: tell what the finished runs say."
)
@click.option("--quiet", is_flag=True, help="Show no progress.")
def main(
    model: str, engine: str, rooms: tuple[Path, ...], limit: int | None, batch_size: str, runs: Path,
    output: str, as_is: bool, quiet: bool,
) -> None:  # fmt: skip
    """Run the grid where it is not there yet, pool the rooms, and write what it says of the model."""
    size = batch_size if batch_size == AUTO else int(batch_size)
    grid = Grid(engine, model, rooms, runs, limit, {"batch_size": size, "quiet": quiet})
    again = shlex.join(["python", "-m", "training.measure", *sys.argv[1:]])
    try:
        found = {
            name: complete(sweep)
            if as_is
            else finished(sweep, again, lambda line: click.echo(line, err=True))
            for name, sweep in grid.sweeps().items()
        }
        arms = {
            label: pool(label, {name: run[label] for name, run in found.items()})
            for label in ARMS
            if all(label in run for run in found.values())
        }
        record = measured(arms, grid, told_of(sys.argv[1:]))
    except RenderAgentError as error:
        raise click.ClickException(str(error)) from error
    text = table(record)
    Path(output).parent.mkdir(parents=True, exist_ok=True)
    Path(output + ".json").write_text(
        json.dumps(record, indent=1, ensure_ascii=False) + "\n", "utf-8"
    )
    Path(output + ".md").write_text(text, "utf-8")
    click.echo(text)


def measured(arms: Mapping[str, Pooled], grid: Grid, words: Sequence[str]) -> dict[str, Any]:
    """Return all figures; words: the command's, without its name."""
    records = [record for arm in arms.values() for record in arm.records]
    free = arms[FREE]
    found = differences(arms)
    record: dict[str, Any] = {
        "when": datetime.now(UTC).isoformat(timespec="minutes"),
        "command": shlex.join(["python", "-m", "training.measure", *words]),
        "machines": _each(
            f"{told['system']}, {told['cores']} cores, Python {told['python']}"
            for told in (entry["machine"] for entry in records)
        ),
        "versions": _each(
            f"torch {told['torch']}, transformers {told['transformers']}, llguidance {told['llguidance']}"
            for told in (entry["versions"] for entry in records)
        ),
        "commits": _each(entry["commit"] or "unknown" for entry in records),
        "limit": grid.limit,
        "model": _model(grid),
        "rooms": [
            {"name": name, "sha256": sha256(file), **free.parts[name]}
            for file in grid.rooms
            for name in (file.resolve().parent.name,)
        ],
        "questions": len(free.rows),
        "intervals": "jackknife",
        "arms": {label: _arm(arm) for label, arm in arms.items()},
        "differences": found,
        "margin": margin(found),
    }
    if len(arms) < len(ARMS):
        return record
    record["left_and_right"] = left_and_right(free, arms[MIRRORED])
    return {**record, "verdicts": verdicts(record)}


def _arm(arm: Pooled) -> dict[str, Any]:
    found = arm.results
    within = found["intervals"]
    means = (OFFICIAL, MICRO, MEAN_OF_TYPES)
    scores = {OFFICIAL: found["official_over_scored"]["score"]} | {
        name: found[name] for name in means[1:]
    }
    return {
        "options": ARMS[arm.label],
        "n": found["n"],
        "scenes": found["scenes"],
        "counts": found["counts"],
        "means": {name: {"score": scores[name], "interval": within.get(name)} for name in means},
        "tasks": {
            name: {"score": score, "interval": within.get(name)}
            for name, score in found["tasks"].items()
        },
        "types": {
            name: {**entry, "interval": within.get(name)} for name, entry in found["types"].items()
        },
        "by_scene": _by_scene(arm),
        "well_formed": arm.well_formed,
        "work": arm.work,
        "notes": found["notes"],
    }


def _by_scene(arm: Pooled) -> dict[str, dict[str, list[float]]]:
    """Return the sum of scores and the number of questions by scene and type: what intervals are made of."""
    found: dict[str, dict[str, list[float]]] = {}
    for row in arm.rows:
        if row["score"] is not None:
            entry = found.setdefault(row["scene"], {}).setdefault(row["type"], [0.0, 0])
            entry[0] += row["score"]
            entry[1] += 1
    return found


def _model(grid: Grid) -> dict[str, Any]:
    """Return what is measured: its name, the number of its weights, and the bytes of its directory."""
    name = Path(grid.model).name
    if grid.engine == "scripted":
        return {"name": name, "digest": None, "weights": None, "bytes": None}
    folder = find_model(grid.model).folder
    files = [file for file in folder.iterdir() if file.is_file()]
    return {
        "name": name,
        "digest": digest(folder),
        "weights": sum(weights_in(file) for file in weight_files(folder)),
        "bytes": sum(file.stat().st_size for file in files),
    }


def weights_in(file: Path) -> int:
    """Return how many numbers a safetensors file holds, by its header."""
    from safetensors import safe_open

    with safe_open(file, framework="numpy") as opened:
        names = opened.keys()
        return sum(math.prod(opened.get_slice(name).get_shape()) for name in names)


def _each(values: Iterable[str]) -> list[str]:
    """Return the values without repetition, in the order in which they come."""
    return list(dict.fromkeys(values))


def told_of(words: Sequence[str]) -> list[str]:
    """Return the words of the command without where runs are kept, and no place of this machine in them."""
    kept = list(words)
    for option in PRIVATE:
        if option in kept:
            place = kept.index(option)
            del kept[place : place + 2]
    return ["/".join(Path(word).parts[-2:]) if Path(word).is_absolute() else word for word in kept]


if __name__ == "__main__":
    main()
