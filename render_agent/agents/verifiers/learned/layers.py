"""The layers of all members at once: tensors are (M, …, channels), parameters (M, …)."""

from __future__ import annotations

import torch
from torch.nn import functional

from render_agent.agents.verifiers.learned.parameters import Parameters

MANY_ROWS = 16
"""From so many rows on oneDNN's product is the faster one on a processor, copying to its layout counted."""


def linear(p: Parameters, name: str, x: torch.Tensor) -> torch.Tensor:
    """Return x (M or 1, …, in) through each member's own weight and bias: (M, …, out)."""
    weight = p[f"{name}.weight"]
    flat = x.reshape(len(x), -1, x.shape[-1])
    found = product(flat, weight, p.get(f"{name}.bias"))
    return found.reshape(len(weight), *x.shape[1:-1], weight.shape[1])


def product(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """Return x (M or 1, R, in) by the transposed weight (M, out, in), plus the bias (M, out): (M, R, out)."""
    if _by_onednn(x):
        return torch.stack([found.to_dense() for found in _products(_moved(x), weight, bias)])
    shared = x.expand(len(weight), -1, -1)
    turned = weight.transpose(1, 2)
    return shared @ turned if bias is None else torch.baddbmm(bias[:, None], shared, turned)


def _by_onednn(x: torch.Tensor) -> bool:
    """Whether oneDNN is to multiply x (…, R, in): torch's own product uses half of some processors."""
    able = (
        x.device.type == "cpu" and x.dtype == torch.float32 and torch.backends.mkldnn.is_available()
    )
    return able and not torch.is_grad_enabled() and x.shape[-2] >= MANY_ROWS


def _moved(x: torch.Tensor) -> list[torch.Tensor]:
    """Return x (M, R, in) as one tensor a member, in oneDNN's layout."""
    return [one.to_mkldnn() for one in x]


def _products(
    rows: list[torch.Tensor], weight: torch.Tensor, bias: torch.Tensor | None
) -> list[torch.Tensor]:
    """Return a product a member of rows, one (R, in) a member or one for all, in oneDNN's layout."""
    rows = rows * len(weight) if len(rows) == 1 else rows
    biases = [None] * len(weight) if bias is None else list(bias)
    return [functional.linear(*each) for each in zip(rows, weight, biases, strict=True)]


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
    begun = norm(p, f"{name}.norm", x)
    flat = begun.reshape(len(x), -1, x.shape[-1])
    if not _by_onednn(flat):
        inner = functional.gelu(linear(p, f"{name}.up", begun))
        return x + linear(p, f"{name}.down", inner)
    up = _products(_moved(flat), p[f"{name}.up.weight"], p[f"{name}.up.bias"])
    inner = [functional.gelu(one) for one in up]
    down = _products(inner, p[f"{name}.down.weight"], p[f"{name}.down.bias"])
    return x + torch.stack([one.to_dense() for one in down]).reshape(x.shape)


def unit(x: torch.Tensor) -> torch.Tensor:
    """Return x (…, W) with length 1 along its last axis."""
    return functional.normalize(x, dim=-1)
