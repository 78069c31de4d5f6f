"""The card of a trained verifier: JSON next to its weights, and Markdown for readers."""

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
from render_agent_lab.learned_verifier.shape import VerifierShape

HEAD = """# A verifier of camera moves

An ensemble of {members} members that scores moves from the current view, the question and the moves so far,
without rendering their results. Use it with `--verifier learned:DIR`, where DIR is this folder.
"""

CEILING = (
    "Geometry renders every candidate's view and knows the boxes that define a good move, so it is close to an"
    " upper bound. New surface also renders every view, but knows no boxes. The ensemble does neither."
)


def save_verifier(ensemble: Ensemble, folder: Path, learned: Mapping[str, Any]) -> None:
    """Write a verifier to a folder."""
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


def card_text(learned: Mapping[str, Any], shape: VerifierShape) -> str:
    """Return the card as Markdown. `learned` is the result of `train`."""
    settings, source, held = learned["settings"], learned["learned_from"], learned["held_out"]
    encoder = ", ".join(f"{name} {value}" for name, value in learned["encoder"].items())
    runs = "\n".join(
        f"- `{run['name']}`: {run['model']}, --agent {run['agent']}" for run in source["runs"]
    )
    parts = [
        HEAD.format(members=settings["members"]),
        "## Training data\n",
        f"{source['decisions']:,} decisions of {source['questions']:,} questions in"
        f" {len(source['scenes'])} scenes, from {len(source['runs'])} runs:\n",
        runs,
        f"\nScenes: {', '.join(source['scenes'])}.\n",
        "A move is good if its view clearly shows an object named in the question for the first time. If no candidate"
        " does, moves that show about as much new surface as the best are good. If the named objects are unknown, the"
        " moves that led to a correct answer are good.\n",
        "## Training\n",
        f"Features: {encoder}. Training: {_settings(settings)}. Sizes of a member: {_sizes(shape)}.\n",
        f"## Accuracy in {len(held['scenes'])} held-out scenes\n",
        f"Scenes: {', '.join(held['scenes'])}. They were used neither for training nor for selecting an epoch."
        f" Intervals are 95 % confidence intervals over scenes; {FEW_SCENES}. {CEILING}\n",
        _table("Chosen move is good", held["good"]),
    ]
    if held["named"]:
        parts.append(
            _table("Chosen move shows a named object, if any candidate does", held["named"])
        )
    return "\n".join(parts)


def comparison_sentences(figures: Mapping[str, Any]) -> list[str]:
    """Return sentences that compare the ensemble with the baselines and with its best member."""
    sentences = []
    for other_name, difference in figures["learned_minus"].items():
        better = (
            "better than"
            if difference["mean"] > 0
            else "worse than"
            if difference["mean"] < 0
            else "as well as"
        )
        if difference["low"] is None:
            verdict = f"chose {better} {other_name} in this sample, but with too few scenes for an interval"
        elif difference["low"] > 0 or difference["high"] < 0:
            verdict = f"is {better} {other_name}"
        else:
            verdict = f"does not differ significantly from {other_name}"
        span = "" if difference["low"] is None else f" ({_format_range(difference, '+.1f')})"
        sentences.append(
            f"The ensemble {verdict}: {100 * difference['mean']:+.1f} percentage points{span}."
        )
    members = [name for name in figures["success"] if name.startswith("member")]
    best_member = max(members, key=lambda name: float(figures["success"][name]["mean"]))
    gain = figures["success"]["learned"]["mean"] - figures["success"][best_member]["mean"]
    sentences.append(
        f"The ensemble compared with its best member, {best_member}: {100 * gain:+.1f} percentage points."
    )
    return sentences


def format_interval(row: Mapping[str, Any]) -> str:
    """Return the formatted confidence interval of a share."""
    return "none" if row["low"] is None else f"{_format_range(row, '.1f')} %"


def _format_range(row: Mapping[str, Any], form: str) -> str:
    return f"{format(100 * row['low'], form)} to {format(100 * row['high'], form)}"


def _table(title: str, figures: Mapping[str, Any]) -> str:
    rows = [
        f"| {name} | {100 * row['mean']:.1f} % | {format_interval(row)} |"
        for name, row in figures["success"].items()
    ]
    head = f"{title}: {figures['decisions']:,} decisions in {figures['scenes']} scenes.\n"
    table = "\n".join(["| chosen by | success | 95 % CI |", "|---|---|---|", *rows])
    return f"{head}\n{table}\n\n{' '.join(comparison_sentences(figures))}\n"


def _settings(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in settings.items())


def _sizes(shape: VerifierShape) -> str:
    return ", ".join(f"{name} {value}" for name, value in shape.to_json().items())
