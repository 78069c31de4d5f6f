"""The card of a trained verifier: written beside its weights as JSON, and as Markdown for people."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import save_file

from render_agent.errors import SetupError, os_errors
from render_agent.score.intervals import FEW_SCENES
from render_agent_lab.learned_verifier.card import CARD, FORMAT, WEIGHTS
from render_agent_lab.learned_verifier.ensemble import Ensemble, stored_name
from render_agent_lab.learned_verifier.history import NUMBERS
from render_agent_lab.learned_verifier.shape import Shape

HEAD = """# A verifier of camera moves

An ensemble of {members} members that scores moves by the view before them, the question and the moves so
far, without drawing where they lead. Use it with `--verifier learned:DIR`, DIR being this folder.
"""

CEILING = (
    "Geometry looks at every candidate's view, and knows the boxes by which a move is called good: it is"
    " near the best that can be had. New surface looks at every view, too, and knows no boxes. The"
    " ensemble sees neither."
)


def save(ensemble: Ensemble, folder: Path, learned: Mapping[str, Any]) -> None:
    """Write a verifier into a folder.

    learned: what the card is to tell of its making: which encoder gave the features, which runs and
    scenes it learned from, and how well it chooses in scenes held out; JSON. SetupError where it
    cannot be written.
    """
    card = {
        "format": FORMAT,
        "members": ensemble.members,
        "shape": ensemble.shape.to_json(),
        "numbers_of_a_move": NUMBERS,
        "learned": learned,
    }
    text = json.dumps(card, indent=1, ensure_ascii=False) + "\n"
    weights = {stored_name(name): tensor for name, tensor in ensemble.parameters.items()}
    with os_errors(SetupError, f"write {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        save_file(
            {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()},
            folder / WEIGHTS,
            {"format": str(FORMAT)},
        )
        (folder / CARD).write_text(text, "utf-8")


def card_text(learned: Mapping[str, Any], shape: Shape) -> str:
    """Return the card as Markdown; learned: what `train` returns."""
    settings, source, held = learned["settings"], learned["learned_from"], learned["held_out"]
    encoder = ", ".join(f"{name} {value}" for name, value in learned["encoder"].items())
    runs = "\n".join(
        f"- `{run['name']}`: {run['model']}, --agent {run['agent']}" for run in source["runs"]
    )
    parts = [
        HEAD.format(members=settings["members"]),
        "## What it learned from\n",
        f"{source['decisions']:,} decisions of {source['questions']:,} questions in"
        f" {len(source['scenes'])} scenes, from {len(source['runs'])} runs:\n",
        runs,
        f"\nScenes: {', '.join(source['scenes'])}.\n",
        "A move is good where its view shows well, for the first time, something that the question names."
        " Where no candidate does, those are good that show about as much new surface of the room as the"
        " best. Where nobody knows what is named, the moves are that led to a right answer.\n",
        "## How it was made\n",
        f"Features: {encoder}. Training: {_settings(settings)}. Sizes of a member: {_sizes(shape)}.\n",
        f"## How well it chooses in {len(held['scenes'])} scenes held out\n",
        f"Scenes: {', '.join(held['scenes'])}. No decision in them was learned from, and no epoch was"
        f" picked by them. Intervals are of 95 %, over scenes; {FEW_SCENES}. {CEILING}\n",
        _table("The move chosen is good", held["good"]),
    ]
    if held["named"]:
        parts.append(
            _table("The move chosen shows something named, where a candidate does", held["named"])
        )
    return "\n".join(parts)


def standing(figures: Mapping[str, Any]) -> list[str]:
    """Return sentences that compare the ensemble with the other choosers and its best member."""
    sentences = []
    for other, apart in figures["learned_minus"].items():
        better = "better than" if apart["mean"] > 0 else "worse than" if apart["mean"] < 0 else "as"
        if apart["low"] is None:
            verdict = f"chose {better} {other} in this sample, of too few scenes to be sure"
        elif apart["low"] > 0 or apart["high"] < 0:
            verdict = f"chooses {better} {other}"
        else:
            verdict = f"cannot be told apart from {other} in this sample"
        span = "" if apart["low"] is None else f" ({_span(apart, '+.1f')})"
        sentences.append(
            f"The ensemble {verdict}: {100 * apart['mean']:+.1f} percentage points{span}."
        )
    members = [name for name in figures["success"] if name.startswith("member")]
    best = max(members, key=lambda name: float(figures["success"][name]["mean"]))
    gained = figures["success"]["learned"]["mean"] - figures["success"][best]["mean"]
    sentences.append(
        f"The ensemble against the best of its members, {best}: {100 * gained:+.1f} percentage points."
    )
    return sentences


def spanned(row: Mapping[str, Any]) -> str:
    """Return the interval of a share as it is written."""
    return "none" if row["low"] is None else f"{_span(row, '.1f')} %"


def _span(row: Mapping[str, Any], form: str) -> str:
    return f"{format(100 * row['low'], form)} to {format(100 * row['high'], form)}"


def _table(title: str, figures: Mapping[str, Any]) -> str:
    rows = [
        f"| {name} | {100 * row['mean']:.1f} % | {spanned(row)} |"
        for name, row in figures["success"].items()
    ]
    head = f"{title}: {figures['decisions']:,} decisions in {figures['scenes']} scenes.\n"
    table = "\n".join(["| chosen by | success | interval |", "|---|---|---|", *rows])
    return f"{head}\n{table}\n\n{' '.join(standing(figures))}\n"


def _settings(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in settings.items())


def _sizes(shape: Shape) -> str:
    return ", ".join(f"{name} {value}" for name, value in shape.to_json().items())
