"""A training's state on disk, as safetensors: parameters, the optimiser's moments, and the lines so far."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

from render_agent.errors import SetupError
from render_agent.text.safe_parse import parse_json
from render_agent_lab.learned_verifier.checkpoint import read_tensors

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
    tensors, metadata = read_tensors(path)
    if metadata.get("stamp") != _text(stamp):
        raise SetupError(
            f"{path} was written with other examples, sizes or settings: give these, or another file"
        )
    sorted_out: dict[str, dict[str, torch.Tensor]] = {}
    for name, tensor in tensors.items():
        kind, _, of = name.partition("/")
        sorted_out.setdefault(kind, {})[of] = tensor
    parameters = sorted_out.pop("parameters")
    moments = {name: {kind: of[name] for kind, of in sorted_out.items()} for name in parameters}
    return Checkpoint(parameters, moments, parse_json(metadata["lines"]))


def _text(data: Any) -> str:
    return json.dumps(data, sort_keys=True)


def write_tensors(
    path: Path, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str]
) -> None:
    """Write tensors by name, and texts by name; SetupError where that cannot be written."""
    partial = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file(
            {n: t.detach().cpu().contiguous() for n, t in tensors.items()}, partial, dict(metadata)
        )
        partial.replace(path)
    except (OSError, SafetensorError) as error:
        raise SetupError(f"cannot write {path}: {error}") from error
