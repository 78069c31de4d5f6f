"""Writing a trained verifier into a folder: its weights, and the card that tells of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from render_agent.agents.verifiers.learned.card import CARD, FORMAT, WEIGHTS
from render_agent.agents.verifiers.learned.ensemble import Ensemble, stored_name
from render_agent.agents.verifiers.learned.history import NUMBERS
from render_agent.errors import SetupError
from render_agent_lab.verifier_training.checkpoint import write_tensors


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
    write_tensors(folder / WEIGHTS, weights, {"format": str(FORMAT)})
    try:
        (folder / CARD).write_text(text, "utf-8")
    except OSError as error:
        raise SetupError(f"cannot write {folder / CARD}: {error}") from error
