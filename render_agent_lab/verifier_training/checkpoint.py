"""A training's state on disk: parameters, the optimiser's moments, and the lines so far."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from render_agent.agents.verifiers.learned.tensor_file import read_tensors, write_tensors
from render_agent.errors import SetupError
from render_agent.text.safe_parse import parse_json

Moments = Mapping[str, Mapping[str, torch.Tensor]]
"""What AdamW keeps of every parameter, by name."""


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """Where training stands after an epoch."""

    parameters: Mapping[str, torch.Tensor]
    moments: Moments
    lines: list[dict[str, Any]]


def write_checkpoint(path: Path, stamp: Mapping[str, Any], state: Checkpoint) -> None:
    """Write a checkpoint whole or not at all; `stamp`: what it must be continued with."""
    tensors = {f"parameters/{name}": tensor for name, tensor in state.parameters.items()}
    for name, moments in state.moments.items():
        tensors |= {f"{kind}/{name}": tensor for kind, tensor in moments.items()}
    write_tensors(path, tensors, {"stamp": _text(stamp), "lines": _text(state.lines)})


def read_checkpoint(path: Path, stamp: Mapping[str, Any]) -> Checkpoint:
    """Return what `write_checkpoint` wrote with the same stamp; SetupError where it is another's."""
    tensors, told = read_tensors(path)
    if told.get("stamp") != _text(stamp):
        raise SetupError(
            f"{path} was written with other examples, sizes or settings: give these, or another file"
        )
    sorted_out: dict[str, dict[str, torch.Tensor]] = {}
    for name, tensor in tensors.items():
        kind, _, of = name.partition("/")
        sorted_out.setdefault(kind, {})[of] = tensor
    parameters = sorted_out.pop("parameters")
    moments = {name: {kind: of[name] for kind, of in sorted_out.items()} for name in parameters}
    return Checkpoint(parameters, moments, parse_json(told["lines"]))


def _text(data: Any) -> str:
    return json.dumps(data, sort_keys=True)
