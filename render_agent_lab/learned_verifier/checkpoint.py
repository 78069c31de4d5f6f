"""Loads a trained verifier: its weights and its card."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from render_agent.errors import SetupError
from render_agent_lab.learned_verifier.card import CARD, FORMAT, WEIGHTS, read_card
from render_agent_lab.learned_verifier.ensemble import Ensemble, stored_name
from render_agent_lab.learned_verifier.history import NUMBERS
from render_agent_lab.learned_verifier.shape import VerifierShape


def load(folder: Path, device: str = "cpu") -> tuple[Ensemble, dict[str, Any]]:
    """Load the verifier in a folder; return the ensemble and the `learned` entry of its card. Raises SetupError."""
    card = read_card(folder)
    shape, members = _read_shape(folder, card)
    network = Ensemble(shape, {}).network
    names = {stored_name(name): name for name, _ in network.named_parameters()}
    sizes = {stored_name(name): tensor.shape for name, tensor in network.named_parameters()}
    expected_shapes = {name: (members, *size) for name, size in sizes.items()}
    tensors = read_tensors(folder / WEIGHTS)
    stored_shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if stored_shapes != expected_shapes:
        mismatches = [
            n
            for n in sorted({*expected_shapes, *stored_shapes})
            if expected_shapes.get(n) != stored_shapes.get(n)
        ]
        first = mismatches[0]
        raise SetupError(
            f"{folder / WEIGHTS} does not match its card: {first} is"
            f" {stored_shapes.get(first, 'missing')}, expected {expected_shapes.get(first, 'nothing')}"
            + (f" (and {len(mismatches) - 1} more)" if len(mismatches) > 1 else "")
        )
    for name, tensor in tensors.items():
        if not tensor.is_floating_point() or not tensor.isfinite().all():
            raise SetupError(f"{folder / WEIGHTS}: {name} has values that are not finite numbers")
    ensemble = Ensemble(shape, {names[name]: tensor.float() for name, tensor in tensors.items()})
    return ensemble.to(device), card["learned"]


def read_tensors(path: Path) -> dict[str, torch.Tensor]:
    """Return the tensors of a safetensors file by name. Raises SetupError if it cannot be read."""
    try:
        with safe_open(path, "pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise SetupError(f"cannot read {path} as safetensors: {error}") from error


def _read_shape(folder: Path, card: Mapping[str, Any]) -> tuple[VerifierShape, int]:
    """Return the shape and the number of members from a card."""
    if card["format"] != FORMAT or card["numbers_of_a_move"] != list(NUMBERS):
        raise SetupError(
            f"{folder / CARD} was written by an incompatible version. Train the verifier again."
        )
    members = card["members"]
    if not isinstance(members, int) or members < 1:
        raise SetupError(f"{folder / CARD}: members must be a positive integer, not {members!r}")
    try:
        return VerifierShape.from_json(card["shape"]), members
    except (TypeError, ValueError) as error:
        raise SetupError(f"{folder / CARD}: {error}") from error
