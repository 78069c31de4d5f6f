"""What the model's card tells of its making: `training.json`, from the recipe, the clock and the curves."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from render_agent_lab.bench.report import installed, processor
from training.dialogue_file import DIALOGUES, load_dialogues
from training.stage_timer import Clock, hours

if TYPE_CHECKING:
    from training.make import Recipe

STORY = "training.json"

CURVES = {
    "perception": {"loss": ("loss of perception", "nats a cell, and places")},
    "places": {
        "text loss": ("loss of arithmetic", "nats a token"),
        "places loss": ("loss of inventories", "nats a token"),
    },
    "dialogue": {
        "dialogues loss": ("loss of dialogues", "nats a token"),
        "places loss": ("loss of inventories", "nats a token"),
        "text loss": ("loss of arithmetic", "nats a token"),
    },
    "mending": {
        "dialogues loss": ("loss of dialogues", "nats a token"),
        "choices loss": ("loss of choices", "nats a token"),
    },
    "joint": {
        "dialogues loss": ("loss of dialogues", "nats a token"),
        "places loss": ("loss of inventories", "nats a token"),
    },
    "correction": {
        "dialogues loss": ("loss of own dialogues", "nats a token"),
        "choices loss": ("loss of choices", "nats a token"),
    },
}
"""By stage, what of the lines that it wrote is drawn, with name and unit."""

EVERY = 100
"""Steps between two points of a curve; of a stage with fewer than FEW such, every line is a point."""

FEW = 5


def write_story(
    work: Path, recipe: Recipe, model: Path, seeds: Sequence[int], command: str
) -> None:
    """Write `training.json` into a model's folder; `training.card` says what it holds."""
    clock = Clock(work / "clock.jsonl").lines()
    stages = dict.fromkeys(line["stage"] for line in clock)
    spent = {name: hours(line for line in clock if line["stage"] == name) for name in stages}
    begun = min(datetime.fromisoformat(line["began"]) for line in clock)
    packages = ("torch", "transformers")
    story = {
        "began": begun.isoformat(timespec="minutes"),
        "hours": round(hours(clock), 2),
        "machine": f"{processor()}, {os.cpu_count()} cores, no GPU",
        "versions": ", ".join(f"{name} {installed(name)}" for name in packages),
        "seeds": {
            "rooms for training": f"{seeds[0]} … {seeds[-1]}",
            "training": str(recipe.seed),
        },
        "data": _data(work),
        "recipe": {
            **{name.replace("_", " "): str(value) for name, value in asdict(recipe).items()},
            "hours by stage": ", ".join(f"{name} {time:.2f}" for name, time in spent.items()),
        },
        "commands": [command],
        "curves": [curve for stage in CURVES for curve in _curves(work, stage)],
    }
    text = json.dumps(story, indent=1, ensure_ascii=False) + "\n"
    (model / STORY).write_text(text, "utf-8")


def _data(work: Path) -> dict[str, str]:
    def homes(names: str) -> str:
        return f"{len([*work.glob(f'rooms/{names}/*.ply')]):,} homes"

    pictures = sum(int(file.read_text()) for file in work.glob("perception/train-*/done"))
    return {
        "rooms for training": homes("train-*"),
        "rooms for validation": homes("validation-*"),
        "labelled pictures": f"{pictures:,}",
        "dialogues of the expert": _counted(work, "dialogues"),
        "inventories of pictures": _counted(work, "perception"),
        "arithmetic on text": _counted(work, "text"),
        "choices on text": _counted(work, "choices"),
        "names on text": _counted(work, "names"),
        "nearest on text": _counted(work, "nearest"),
        "own dialogues, corrected": _counted(work, "practice"),
    }


def _counted(work: Path, name: str) -> str:
    found = [load_dialogues(file) for file in sorted(work.glob(f"{name}/train-*/{DIALOGUES}"))]
    learned = sum(int(some.learned.sum()) for some in found)
    return f"{sum(map(len, found)):,} dialogues, {learned:,} tokens learned"


def _curves(work: Path, stage: str) -> list[Mapping[str, Any]]:
    """Return the curves of a stage; of steps that were made again after a kill, the last line counts."""
    file = work / "model" / f"{stage}.jsonl"
    if not file.is_file():
        return []
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    if lines[-1]["step"] >= FEW * EVERY:
        lines = [line for line in lines if line["step"] % EVERY == 0]
    found: list[Mapping[str, Any]] = []
    for key, (name, unit) in CURVES[stage].items():
        points = {line["step"]: (line["hours"], line[key]) for line in lines if key in line}
        if points:
            times, values = zip(*points.values(), strict=True)
            curve = {"stage": stage, "name": name, "unit": unit}
            found.append({**curve, "hours": times, "values": values})
    return found
