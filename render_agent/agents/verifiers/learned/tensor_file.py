"""Tensors in a safetensors file, written whole or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch

from render_agent.errors import SetupError


def write_tensors(path: Path, tensors: Mapping[str, torch.Tensor], told: Mapping[str, str]) -> None:
    """Write tensors by name, and texts by name; SetupError where that cannot be written."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    partial = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file(
            {n: t.detach().cpu().contiguous() for n, t in tensors.items()}, partial, dict(told)
        )
        partial.replace(path)
    except (OSError, SafetensorError) as error:
        raise SetupError(f"cannot write {path}: {error}") from error


def read_tensors(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """Return the tensors and texts of a file; SetupError where it is none."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            names = file.keys()
            return {name: file.get_tensor(name) for name in names}, dict(file.metadata() or {})
    except (OSError, SafetensorError) as error:
        raise SetupError(f"cannot read {path} as safetensors: {error}") from error
