"""Muon and AdamW on float32 master weights of a model that computes in the CPU's fastest dtype."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

WEIGHTS = "model.safetensors"  # weights file of a shipped model

MAX_GRADIENT_NORM = 1.0  # gradient norm to which steps are clipped

# Learning rate of Muon relative to AdamW; 1, 3 and 6 were tried over 160 steps.
MUON_RATE_FACTOR = 4.0

# Name parts of weights between the first and the last layer, whose matrices Muon optimizes.
INNER_NAMES = ("blocks.", "layers.", "merger")


class MasterWeights:
    """Float32 master weights of a model and their optimizers.

    Many CPUs multiply bfloat16 several times faster than float32, but bfloat16 rounds small updates away. Updates are
    therefore applied to float32 masters, and the model holds rounded copies. Inner matrices use Muon (Liu et al. 2025,
    "Muon is scalable for LLM training"), everything else AdamW.
    """

    def __init__(
        self,
        modules: Mapping[str, Any],
        decay: float,
        slow: tuple[
            str, ...
        ] = (),  # prefixes of weights whose learning rate is `factor` times as large
        factor: float = 1.0,
        *,
        muon: bool = True,  # False: AdamW for everything; faster if the CPU has no fast bfloat16
    ) -> None:
        import torch

        self.named = {
            f"{prefix}.{name}": weight
            for prefix, module in modules.items()
            for name, weight in module.named_parameters()
            if weight.requires_grad
        }
        self.copies = {name: weight.detach().float().clone() for name, weight in self.named.items()}
        groups: dict[tuple[bool, bool, bool], list[Any]] = {}
        for name, copy in self.copies.items():
            is_inner = muon and copy.ndim == 2 and any(part in name for part in INNER_NAMES)
            decays = copy.ndim > 1 and "embed" not in name
            is_slow = name.startswith(slow) if slow else False
            groups.setdefault((is_inner, decays, is_slow), []).append(copy)

        def parameter_groups(inner: bool, rate_factor: float) -> list[dict[str, Any]]:
            return [
                {
                    "params": weights,
                    "weight_decay": decay if decays else 0.0,
                    "scale": rate_factor * (factor if is_slow else 1.0),
                }
                for (is_inner, decays, is_slow), weights in groups.items()
                if is_inner == inner
            ]

        make_muon = partial(torch.optim.Muon, momentum=0.95, adjust_lr_fn="match_rms_adamw")
        make_adamw = partial(torch.optim.AdamW, betas=(0.9, 0.98), foreach=True)
        makers: dict[str, tuple[Callable[..., Any], Any]] = {
            "muon": (make_muon, parameter_groups(True, MUON_RATE_FACTOR)),
            "adamw": (make_adamw, parameter_groups(False, 1.0)),
        }
        self.optimizers = {
            name: make(param_groups)
            for name, (make, param_groups) in makers.items()
            if param_groups
        }

    def step(self, rate: float) -> float:
        """Apply one update from the gradients; return the gradient norm."""
        import torch

        for name, weight in self.named.items():
            self.copies[name].grad = None if weight.grad is None else weight.grad.float()
            weight.grad = None
        with_gradient = [copy for copy in self.copies.values() if copy.grad is not None]
        norm = torch.nn.utils.clip_grad_norm_(with_gradient, MAX_GRADIENT_NORM, foreach=True)
        for optimizer in self.optimizers.values():
            for group in optimizer.param_groups:
                group["lr"] = rate * group["scale"]
            optimizer.step()
        with torch.no_grad():
            torch._foreach_copy_(list(self.named.values()), list(self.copies.values()))
        return float(norm)

    def state(self) -> dict[str, Any]:
        """Return the state for `restore`."""
        steps = {name: optimizer.state_dict() for name, optimizer in self.optimizers.items()}
        return {"weights": self.copies, "optimizers": steps}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a result of `state`."""
        import torch

        with torch.no_grad():
            for name, copy in self.copies.items():
                copy.copy_(state["weights"][name])
                self.named[name].copy_(copy)
        for name, optimizer in self.optimizers.items():
            optimizer.load_state_dict(state["optimizers"][name])


def compute_dtype() -> Any:
    """Return the dtype to train in: bfloat16 if the CPU multiplies it natively, else float32.

    Emulated bfloat16 is slow: 60 times slower than float32 on a CPU with AVX2 only.
    """
    import torch

    is_supported = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return torch.bfloat16 if is_supported else torch.float32


def save(checkpoint: Path, step: int, hours: float, state: Mapping[str, Any]) -> None:
    """Write a checkpoint atomically. `hours` is the training time so far, over all sessions."""
    import torch

    partial_file = checkpoint.with_suffix(".new")
    torch.save({"step": step, "hours": hours, "masters": dict(state)}, partial_file)
    partial_file.replace(checkpoint)


def load_weights(model: Any, weights: Mapping[str, Any]) -> list[str]:
    """Copy the weights of a checkpoint to a model; return the names of those missing in the checkpoint."""
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


def read_weights(start: Path) -> Any:
    """Return the float32 weights of a checkpoint file or of a shipped model's folder, by name.

    Raises OSError if it cannot be read.
    """
    import torch

    if start.is_file():
        return torch.load(start, weights_only=True)["masters"]["weights"]
    from safetensors.torch import load_file

    prefixes = {"model.visual.": "visual.", "model.language_model.": "text."}
    weights = {}
    for name, weight in load_file(start / WEIGHTS).items():
        for published, own in prefixes.items():
            if name.startswith(published):
                weights[own + name.removeprefix(published)] = weight.float()
    return weights


def done_file(checkpoint: Path, steps: int) -> Path:
    """Return the marker file that exists once training has completed `steps` steps."""
    return checkpoint.with_suffix(f".{steps}.done")


def rate_at(step: int, steps: int, peak: float, warm_up: int = 100) -> float:
    """Return the learning rate of a step: linear warm-up, then a half cosine down to a twentieth of the peak."""
    if step < warm_up:
        return peak * (step + 1) / warm_up
    progress = min(1.0, (step - warm_up) / max(1, steps - warm_up))
    return peak * (0.05 + 0.95 * (1 + math.cos(math.pi * progress)) / 2)
