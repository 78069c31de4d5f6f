"""Steps of Muon and AdamW on float32 masters of weights that compute in what the processor is fastest at."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

WEIGHTS = "model.safetensors"
"""The file of a shipped model's weights."""

CLIP = 1.0
"""The largest norm of a step's gradients; longer ones are shortened to it."""


BOLDER = 4.0
"""How much longer steps of Muon are than AdamW's of the same rate; tried with 1, 3 and 6 over 160 steps."""

INNER = ("blocks.", "layers.", "merger")
"""What the names of weights between the first and the last layer contain; their matrices are Muon's."""


class Masters:
    """The float32 weights behind a model, and the optimizers that move them.

    Many a processor multiplies bfloat16 several times as fast as float32, but small steps get lost in it; so
    steps are made on float32 masters, of which the model holds the rounded copies. Inner matrices take
    steps of Muon (Liu et al. 2025, "Muon is scalable for LLM training"), all else of AdamW; without
    `muon` all do, which is quicker where bfloat16 is slow: Muon always computes in it. Names starting with one of
    `slow` take steps that are `factor` times as long.
    """

    def __init__(
        self,
        modules: Mapping[str, Any],
        decay: float,
        slow: tuple[str, ...] = (),
        factor: float = 1.0,
        *,
        muon: bool = True,
    ) -> None:
        import torch

        self.named = {
            f"{part}.{name}": weight
            for part, module in modules.items()
            for name, weight in module.named_parameters()
            if weight.requires_grad
        }
        self.copies = {name: weight.detach().float().clone() for name, weight in self.named.items()}
        groups: dict[tuple[bool, bool, bool], list[Any]] = {}
        for name, copy in self.copies.items():
            inner = muon and copy.ndim == 2 and any(part in name for part in INNER)
            decays = copy.ndim > 1 and "embed" not in name
            slower = name.startswith(slow) if slow else False
            groups.setdefault((inner, decays, slower), []).append(copy)

        def those(inner: bool, bolder: float) -> list[dict[str, Any]]:
            return [
                {
                    "params": some,
                    "weight_decay": decay if decays else 0.0,
                    "scale": bolder * (factor if slower else 1.0),
                }
                for (inside, decays, slower), some in groups.items()
                if inside == inner
            ]

        orthogonal = partial(torch.optim.Muon, momentum=0.95, adjust_lr_fn="match_rms_adamw")
        adamw = partial(torch.optim.AdamW, betas=(0.9, 0.98), foreach=True)
        inside, outside = those(True, BOLDER), those(False, 1.0)
        kinds: dict[str, tuple[Callable[..., Any], Any]] = {
            "muon": (orthogonal, inside),
            "adamw": (adamw, outside),
        }
        self.optimizers = {name: kind(some) for name, (kind, some) in kinds.items() if some}

    def step(self, rate: float) -> float:
        """Move the weights along their gradients; return the norm of these."""
        import torch

        for name, weight in self.named.items():
            self.copies[name].grad = None if weight.grad is None else weight.grad.float()
            weight.grad = None
        with_gradient = [copy for copy in self.copies.values() if copy.grad is not None]
        norm = torch.nn.utils.clip_grad_norm_(with_gradient, CLIP, foreach=True)
        for optimizer in self.optimizers.values():
            for group in optimizer.param_groups:
                group["lr"] = rate * group["scale"]
            optimizer.step()
        with torch.no_grad():
            torch._foreach_copy_(list(self.named.values()), list(self.copies.values()))
        return float(norm)

    def state(self) -> dict[str, Any]:
        """Return all that `restore` needs."""
        steps = {name: each.state_dict() for name, each in self.optimizers.items()}
        return {"weights": self.copies, "optimizers": steps}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` returned."""
        import torch

        with torch.no_grad():
            for name, copy in self.copies.items():
                copy.copy_(state["weights"][name])
                self.named[name].copy_(copy)
        for name, optimizer in self.optimizers.items():
            optimizer.load_state_dict(state["optimizers"][name])


def computing() -> Any:
    """Return the type of number to train in: bfloat16 where the processor multiplies it itself, else float32.

    Without such instructions bfloat16 is put together from float32: sixty times as slow on one of AVX2.
    """
    import torch

    supported = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return torch.bfloat16 if supported else torch.float32


def save(checkpoint: Path, step: int, hours: float, state: Mapping[str, Any]) -> None:
    """Write a checkpoint in one piece.

    hours: of training so far, over all its pieces.
    """
    import torch

    beside = checkpoint.with_suffix(".new")
    torch.save({"step": step, "hours": hours, "masters": dict(state)}, beside)
    beside.replace(checkpoint)


def give(model: Any, weights: Mapping[str, Any]) -> list[str]:
    """Give a model the weights of a checkpoint; return the names of those that the checkpoint lacks."""
    import torch

    parts = {"visual": model.model.visual, "text": model.model.language_model}
    named = {
        f"{part}.{name}": weight
        for part, module in parts.items()
        for name, weight in module.named_parameters()
    }
    with torch.no_grad():
        for name in named.keys() & weights.keys():
            named[name].copy_(weights[name])
    return sorted(named.keys() - weights.keys())


def weights_of(start: Path) -> Any:
    """Return the float32 weights by name of a checkpoint, or of the directory of a shipped model.

    OSError where it cannot be read.
    """
    import torch

    if start.is_file():
        return torch.load(start, weights_only=True)["masters"]["weights"]
    from safetensors.torch import load_file

    parts = {"model.visual.": "visual.", "model.language_model.": "text."}
    found = {}
    for name, weight in load_file(start / WEIGHTS).items():
        for long, short in parts.items():
            if name.startswith(long):
                found[short + name.removeprefix(long)] = weight.float()
    return found


def done(checkpoint: Path, steps: int) -> Path:
    """Return the file that is there once a training has come to so many steps."""
    return checkpoint.with_suffix(f".{steps}.done")


def rate_at(step: int, steps: int, peak: float, warm: int = 100) -> float:
    """Return the length of a step: up in a line, then down along half a cosine to a twentieth."""
    if step < warm:
        return peak * (step + 1) / warm
    done = min(1.0, (step - warm) / max(1, steps - warm))
    return peak * (0.05 + 0.95 * (1 + math.cos(math.pi * done)) / 2)
