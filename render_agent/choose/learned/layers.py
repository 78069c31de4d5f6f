"""The layers of all members at once: tensors are (M, …, channels), parameters (M, …)."""

from __future__ import annotations

import torch
from torch.nn import functional

from render_agent.choose.learned.parameters import Parameters


def linear(p: Parameters, name: str, x: torch.Tensor) -> torch.Tensor:
    """Return x (M or 1, …, in) through each member's own weight and bias: (M, …, out)."""
    weight, bias = p[f"{name}.weight"], p[f"{name}.bias"]
    members, wide, narrow = weight.shape
    flat = x.reshape(len(x), -1, narrow).expand(members, -1, -1)
    found = torch.baddbmm(bias[:, None], flat, weight.transpose(1, 2))
    return found.reshape(members, *x.shape[1:-1], wide)


def norm(p: Parameters, name: str, x: torch.Tensor) -> torch.Tensor:
    """Return x (M, …, W) with mean 0 and variance 1, times the gain, plus the bias."""
    gain, bias = (
        p[f"{name}.{kind}"].reshape(-1, *[1] * (x.ndim - 2), x.shape[-1])
        for kind in ("gain", "bias")
    )
    return torch.addcmul(bias, standardised(x), gain)


def standardised(x: torch.Tensor) -> torch.Tensor:
    """Return x (…, W) with mean 0 and variance 1 along its last axis."""
    return functional.layer_norm(x, x.shape[-1:])


def feed_forward(p: Parameters, name: str, x: torch.Tensor) -> torch.Tensor:
    """Return x (M, …, W) plus what two linear layers make of it."""
    inner = functional.gelu(linear(p, f"{name}.up", norm(p, f"{name}.norm", x)))
    return x + linear(p, f"{name}.down", inner)


def unit(x: torch.Tensor) -> torch.Tensor:
    """Return x (…, W) with length 1 along its last axis."""
    return functional.normalize(x, dim=-1)
