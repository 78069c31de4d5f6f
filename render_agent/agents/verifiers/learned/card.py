"""A trained verifier as a folder: its weights, and a card that says what it is and learned from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from render_agent.agents.verifiers.learned.card_file import CARD, FORMAT, WEIGHTS, read_card
from render_agent.agents.verifiers.learned.ensemble import Ensemble
from render_agent.agents.verifiers.learned.history import NUMBERS
from render_agent.agents.verifiers.learned.parameters import sizes
from render_agent.agents.verifiers.learned.shape import Shape
from render_agent.agents.verifiers.learned.tensor_file import read_tensors, write_tensors
from render_agent.errors import SetupError


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
    write_tensors(folder / WEIGHTS, ensemble.parameters, {"format": str(FORMAT)})
    try:
        (folder / CARD).write_text(text, "utf-8")
    except OSError as error:
        raise SetupError(f"cannot write {folder / CARD}: {error}") from error


def load(folder: Path, device: str = "cpu") -> tuple[Ensemble, dict[str, Any]]:
    """Return the verifier in a folder, and what its card says of its making.

    SetupError where it is none, was made by another version, or its weights do not fit its card.
    """
    card = read_card(folder)
    shape, members = _told(folder, card)
    wanted = {name: (members, *size) for name, size in sizes(shape).items()}
    tensors, _ = read_tensors(folder / WEIGHTS)
    found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if found != wanted:
        names = [n for n in sorted({*wanted, *found}) if wanted.get(n) != found.get(n)]
        first = names[0]
        raise SetupError(
            f"{folder / WEIGHTS} does not fit its card: {first} is"
            f" {found.get(first, 'missing')}, not {wanted.get(first, 'known')}"
            + (f", and {len(names) - 1} more" if len(names) > 1 else "")
        )
    for name, tensor in tensors.items():
        if not tensor.is_floating_point() or not tensor.isfinite().all():
            raise SetupError(f"{folder / WEIGHTS}: {name} holds something that is no finite number")
    ensemble = Ensemble(shape, {name: tensor.float() for name, tensor in tensors.items()})
    return ensemble.to(device), card["learned"]


def _told(folder: Path, card: Mapping[str, Any]) -> tuple[Shape, int]:
    """Return the shape and the number of members that a card tells."""
    if card["format"] != FORMAT or card["numbers_of_a_move"] != list(NUMBERS):
        raise SetupError(
            f"{folder / CARD} was made by another version of this program: train the verifier again"
        )
    members = card["members"]
    if not isinstance(members, int) or members < 1:
        raise SetupError(f"{folder / CARD}: members is a whole number from 1 on, not {members!r}")
    try:
        return Shape.from_json(card["shape"]), members
    except (TypeError, ValueError) as error:
        raise SetupError(f"{folder / CARD}: {error}") from error
