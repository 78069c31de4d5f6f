"""The model card of the small model: what it is, how it was made, what it scores, what it cannot do.

    python -m training.card render_agent/models/small --measured benchmarks/results/small_model.json

It is written from files alone, so that no figure in it is typed by hand: `config.json` and the weights,
`training.json` beside them, and what `training.measure` wrote. `training.json` holds

    {"began": "2026-11-21T18:00+00:00", "hours": 9.5, "machine": "… 2 cores …", "versions": "torch …",
     "seeds": {"rooms for training": "1000 … 1007"}, "data": {"rooms for training": "2,048 homes …"},
     "recipe": {"optimiser": "AdamW …"}, "commands": ["make train"],
     "curves": [{"stage": "joint", "name": "loss", "unit": "nats a token", "hours": [0.1], "values": [2.5]}]}

where the names in `seeds`, `data` and `recipe` are free, and each becomes a line.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from training.curves import draw_curves
from training.grid import BLIND, FOUR_VIEWS, FREE, FREQUENCY, ONE_VIEW, RANDOM_WALK, digest
from training.measured_table import (
    again_lines,
    arm_lines,
    cannot_lines,
    difference_lines,
    grid_lines,
    machine_lines,
    margin_lines,
    means_words,
    mirrored_lines,
    rooms_words,
    type_lines,
    verdict_lines,
    well_formed_lines,
)

CARD, TRAINING, CURVES = "README.md", "training.json", "curves.svg"

TOLD = ("began", "hours", "machine", "versions", "seeds", "data", "recipe", "commands", "curves")
"""What `training.json` must hold."""

COMPARED = (FREE, BLIND, ONE_VIEW, FOUR_VIEWS, RANDOM_WALK, FREQUENCY)
"""The arms whose scores the card gives by type."""

FRONT = """\
---
license: apache-2.0
library_name: transformers
pipeline_tag: image-text-to-text
---
"""

WHAT = (
    "A Qwen3-VL of {weights:.1f} million weights (`{architecture}`, {bytes:.1f} MB with its tokenizer and"
    " processor), trained from nothing: no published weights are in it. It is shown rendered views of a"
    " furnished room or flat, moves the camera, and answers one of VSI-Bench's questions in the reply"
    " protocol of render_agent. It is there so that a first run on any computer is one with a real model; it"
    " is no result about vision-language models, and it knows no rooms but such as `render-agent make-rooms`"
    " makes."
)

USE = "    render-agent --batch --benchmark rooms --model small --image-size 320x240"

BOUNDS = (
    "- Scans of real rooms, and furniture that `make-rooms` does not know: it has never seen any, and nothing"
    " here says what it does with them.",
    "- Questions in other words than those of the training rooms, and the order of appearance in a video: it"
    " was never asked them. It cannot hold a conversation.",
    "- Pictures of other shapes than 4:3: its processor makes 320x224 pixels, 70 tokens, of every picture, and"
    " it was trained on views of 320x240 with a field of view of 75 degrees.",
    "- Letters of options: it answers in an option's words, which the program reads as its letter, but the"
    " official parser of answers as given does not. Which letter stands before an option it did not learn.",
    "- Its `reasoning` is a fixed short language of places and derivations that it was taught, not a thought"
    " of its own.",
)

LICENCE = (
    "Apache-2.0, as render_agent. All it learned from was made by this program: rooms, pictures, questions and"
    " replies; there is nobody's data in it."
)


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--measured", required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="What `training.measure` wrote.",
)  # fmt: skip
def main(folder: Path, measured: Path) -> None:
    """Write the model card and its curves into the model's directory."""
    record = json.loads(measured.read_text("utf-8"))
    told = json.loads((folder / TRAINING).read_text("utf-8"))
    if lacking := [name for name in TOLD if name not in told]:
        raise click.ClickException(f"{folder / TRAINING} lacks {', '.join(lacking)}")
    if record["model"]["digest"] != digest(folder):
        raise click.ClickException(
            f"{measured} is about other files than those in {folder}: measure this model first"
        )
    draw_curves(told["curves"], folder / CURVES)
    config = json.loads((folder / "config.json").read_text("utf-8"))
    (folder / CARD).write_text(card(record, told, config), "utf-8")
    click.echo(str(folder / CARD))


def card(record: Mapping[str, Any], told: Mapping[str, Any], config: Mapping[str, Any]) -> str:
    """Return the model card as Markdown.

    record: of `training.measure`. told: of `training.json`. config: the model's own.
    """
    model = record["model"]
    what = WHAT.format(
        weights=model["weights"] / 1e6,
        bytes=model["bytes"] / 1e6,
        architecture=config["architectures"][0],
    )
    lines = [
        "# The small model of render_agent",
        "",
        "## What it is",
        "",
        what,
        "",
        USE,
        "",
        *shape_lines(config),
        "",
        "## Data",
        "",
        *_table("what", "which", told["data"]),
        "",
        "## Recipe",
        "",
        *recipe_lines(told),
        "",
        "## Scores",
        "",
        f"Over {record['questions']:,} questions about rooms that it was not trained in:"
        f" {rooms_words(record)}. {means_words(record)}",
        "",
        f"    {record['command']}",
        "",
        *verdict_lines(record),
        "",
        *arm_lines(record),
        "",
        *type_lines(record, COMPARED),
        "",
        *difference_lines(record),
        "",
        *again_lines(record),
        *mirrored_lines(record),
        "",
        *well_formed_lines(record),
        "",
        *machine_lines(record),
        "",
        "## What it cannot do",
        "",
        *margin_lines(record),
        "",
        *cannot_lines(record),
        "",
        "Beyond what was measured:",
        "",
        *BOUNDS,
        "",
        "## Licence",
        "",
        LICENCE,
    ]
    return FRONT + "\n".join(lines) + "\n"


def shape_lines(config: Mapping[str, Any]) -> list[str]:
    """Return the sizes of the model as a table."""
    text, vision = config["text_config"], config["vision_config"]
    found = {
        "language model": f"{text['num_hidden_layers']} layers, {text['hidden_size']} wide",
        "vision tower": f"{vision['depth']} layers, {vision['hidden_size']} wide, patches of"
        f" {vision['patch_size']} pixels",
        "vocabulary": f"{text['vocab_size']:,} tokens",
    }
    return _table("part", "size", found)


def recipe_lines(told: Mapping[str, Any]) -> list[str]:
    """Return how the model was trained: how long, where, with what, from which seeds, by which commands."""
    found = {
        "time": f"{told['hours']:.1f} hours, begun {told['began']}",
        "machine": told["machine"],
        "versions": told["versions"],
        **{f"seed: {name}": value for name, value in told["seeds"].items()},
        **told["recipe"],
    }
    return [
        *_table("what", "how", found),
        "",
        *(f"    {command}" for command in told["commands"]),
        "",
        f"![Curves of the training]({CURVES})",
    ]


def _table(one: str, other: str, found: Mapping[str, Any]) -> list[str]:
    return grid_lines((one, other), [(name, str(value)) for name, value in found.items()], "")


if __name__ == "__main__":
    main()
