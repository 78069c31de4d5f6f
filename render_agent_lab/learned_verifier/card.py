"""The card of a trained verifier as a file, read without what its weights need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from render_agent.errors import SetupError
from render_agent.util.safe_parse import parse_json
from render_agent_lab.learned_verifier.encoder_registry import check_available

WEIGHTS, CARD = "verifier.safetensors", "verifier.json"

FORMAT = 1
"""Raised whenever the same weights would mean something else."""


def check_learned(folder: Path) -> None:
    """Raise SetupError where a folder holds no verifier that `train-verifier` wrote."""
    card = read_card(folder)
    if not (folder / WEIGHTS).is_file():
        raise SetupError(f"{folder} holds no verifier: {WEIGHTS} is missing")
    check_available(encoder_told(folder, card["learned"]))


def encoder_told(folder: Path, learned: object) -> dict[str, Any]:
    """Return the record of the encoder in a card; SetupError where the card has none."""
    encoder = learned.get("encoder") if isinstance(learned, dict) else None
    if not isinstance(encoder, dict) or not isinstance(encoder.get("label"), str):
        raise SetupError(f"{folder} does not say which encoder gave its features: train it again")
    return encoder


def read_card(folder: Path) -> dict[str, Any]:
    """Return the card of a verifier; SetupError where there is none."""
    try:
        card = parse_json((folder / CARD).read_bytes())
    except (OSError, ValueError) as error:
        raise SetupError(f"{folder} holds no verifier: {CARD} cannot be read: {error}") from error
    keys = {"format", "members", "shape", "numbers_of_a_move", "learned"}
    if not isinstance(card, dict) or not keys <= set(card):
        raise SetupError(
            f"{folder / CARD} is no card of a verifier: it needs {', '.join(sorted(keys))}"
        )
    return card
