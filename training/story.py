"""What the model's card tells of its making: `training.json`, from the recipe, the clock and the curves."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from training.make import Recipe

STORY = "training.json"

CURVES = {
    "perception": {"loss": ("loss of perception", "nats a cell, and places")},
    "dialogue": {
        "dialogues loss": ("loss of dialogues", "nats a token"),
        "text loss": ("loss of arithmetic", "nats a token"),
    },
    "joint": {"dialogues loss": ("loss of dialogues, tower and all", "nats a token")},
}
"""By stage, what of the lines that it wrote is drawn, with name and unit."""

EVERY = 100
"""Steps between two points of a curve."""


def write_story(work: Path, recipe: Recipe, model: Path, seeds: Sequence[int]) -> None:
    """Write `training.json` into a model's folder; `training.card` says what it holds."""
    clock = [json.loads(line) for line in (work / "clock.jsonl").read_text().splitlines()]
    hours = sum(line["seconds"] for line in clock) / 3600
    by_stage: dict[str, float] = {}
    for line in clock:
        by_stage[line["stage"]] = by_stage.get(line["stage"], 0.0) + line["seconds"] / 3600
    counts = {name: _counted(work, name) for name in ("rooms", "dialogues", "text")}
    story = {
        "began": clock[0]["began"],
        "hours": round(hours, 2),
        "machine": f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, no GPU",
        "versions": ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers")),
        "seeds": {
            "rooms for training": f"{seeds[0]} … {seeds[-1]}",
            "training": str(recipe.seed),
        },
        "data": {name: told for name, told in counts.items() if told},
        "recipe": {
            **{name.replace("_", " "): str(value) for name, value in asdict(recipe).items()},
            "hours by stage": ", ".join(f"{name} {spent:.2f}" for name, spent in by_stage.items()),
        },
        "commands": ["make train"],
        "curves": [curve for stage in CURVES for curve in _curves(work, stage)],
    }
    (model / STORY).write_text(json.dumps(story, indent=1, ensure_ascii=False) + "\n")


def _counted(work: Path, name: str) -> str:
    if name == "rooms":
        homes = [*work.glob("rooms/train-*/*.ply")]
        return f"{len(homes):,} homes"
    from training.dialogue_file import DIALOGUES, load_dialogues

    found = [load_dialogues(file) for file in sorted(work.glob(f"{name}/train-*/{DIALOGUES}"))]
    learned = sum(int(some.learned.sum()) for some in found)
    return f"{sum(map(len, found)):,} dialogues, {learned:,} tokens learned"


def _curves(work: Path, stage: str) -> list[Mapping[str, Any]]:
    file = work / "model" / f"{stage}.jsonl"
    if not file.is_file():
        return []
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    found = []
    for key, (name, unit) in CURVES[stage].items():
        points = [
            (line["hours"], line[key])
            for line in lines
            if key in line and line["step"] % EVERY == 0
        ]
        if points:
            hours, values = zip(*points, strict=True)
            found.append({"name": name, "unit": unit, "hours": hours, "values": values})
    return found
