"""Reads the card (metadata file) of a trained verifier without importing torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from render_agent.errors import SetupError
from render_agent.util.reasons import reason_of
from render_agent.util.safe_parse import parse_json
from render_agent_lab.learned_verifier.encoder_registry import check_available

WEIGHTS, CARD = "verifier.safetensors", "verifier.json"

FORMAT = 1  # incremented when the meaning of stored weights changes


def check_learned(folder: Path) -> None:
    """Raise SetupError if a folder does not contain a verifier written by `train-verifier`."""
    card = read_card(folder)
    if not (folder / WEIGHTS).is_file():
        raise SetupError(f"{folder} does not contain a trained verifier: {WEIGHTS} is missing")
    check_available(encoder_record(folder, card["learned"]))


def encoder_record(folder: Path, learned: object) -> dict[str, Any]:
    """Return the encoder entry of a card. Raises SetupError if there is none."""
    encoder = learned.get("encoder") if isinstance(learned, dict) else None
    if not isinstance(encoder, dict) or not isinstance(encoder.get("label"), str):
        raise SetupError(
            f"{folder} does not name the encoder of its features. Train the verifier again."
        )
    return encoder


def read_card(folder: Path) -> dict[str, Any]:
    """Read the card of a verifier. Raises SetupError if it is missing or invalid."""
    try:
        card = parse_json((folder / CARD).read_bytes())
    except (OSError, ValueError) as error:
        raise SetupError(
            f"{folder} does not contain a trained verifier: cannot read {CARD}: {reason_of(error)}"
        ) from error
    keys = {"format", "members", "shape", "numbers_of_a_move", "learned"}
    if not isinstance(card, dict) or not keys <= set(card):
        raise SetupError(
            f"{folder / CARD} is not a verifier card. Required keys: {', '.join(sorted(keys))}"
        )
    return card
