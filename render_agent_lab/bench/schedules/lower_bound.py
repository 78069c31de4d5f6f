"""Lower bound for the duration of a run: the computation and memory traffic that its tokens require on the device.

Every prompt token is multiplied through the weights once, every generated token reads the keys and values before it,
and every decoding step reads the weights. Time beyond that sum is software overhead.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from render_agent_lab.bench.schedules.figures import RunStatistics

REPEATS = 5  # timings per measured rate; the fastest counts


@dataclass(frozen=True, slots=True)
class DeviceRates:
    """Measured rates of a device."""

    copied: float
    """Memory bandwidth in bytes per second, reads and writes both counted."""
    multiplied: float
    """Floating-point operations per second of a large matrix product."""


def lower_bound_seconds(model: Any, work: RunStatistics) -> float:
    """Return the lower bound in seconds for the work of a run, at its actual batch sizes."""
    rates = measure_rates(str(model.device), model.dtype)
    text = model.config.get_text_config()
    heads, width = text.num_attention_heads, getattr(text, "head_dim", None)
    width = width or text.hidden_size // heads
    size = model.dtype.itemsize
    kv_bytes_per_token = 2 * text.num_hidden_layers * text.num_key_value_heads * width * size
    matrices = {name: weight for name, weight in model.named_parameters() if weight.dim() > 1}
    vision_weights = sum(
        w.numel() for name, w in matrices.items() if "visual" in name or "vision" in name
    )
    embedding_weights = text.vocab_size * text.hidden_size
    text_weights = sum(weight.numel() for weight in matrices.values()) - vision_weights
    text_weights -= embedding_weights * (
        1 if getattr(model.config, "tie_word_embeddings", False) else 2
    )
    # prompt prefixes shared between questions are prefilled only once
    operations = 2 * text_weights * min(work.first_seen, work.prefilled)
    operations += 4 * text.num_hidden_layers * heads * width * work.attended
    operations += 2 * vision_weights * work.patches
    bytes_moved = (
        work.contexts * kv_bytes_per_token + work.steps * (text_weights + embedding_weights) * size
    )
    return float(operations / rates.multiplied + bytes_moved / rates.copied)


@cache
def measure_rates(device: str, dtype: Any) -> DeviceRates:
    """Measure copy bandwidth and matrix-product throughput of a device for one dtype."""
    import torch

    cuda = device.startswith("cuda")
    side = 8192 if cuda else 1024
    # larger than any cache, smaller than the memory that a run leaves free
    source = torch.empty((1 << 30) if cuda else (1 << 27), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    factor = torch.randn(side, side, device=device, dtype=dtype)
    num_bytes = 2 * source.numel() / _fastest(lambda: target.copy_(source), cuda)
    return DeviceRates(num_bytes, 2 * side**3 / _fastest(lambda: factor @ factor, cuda))


def _fastest(call: Callable[[], Any], cuda: bool) -> float:
    """Return the fastest time of a call in seconds."""
    import torch

    def once() -> float:
        started_at = time.perf_counter()
        call()
        if cuda:
            torch.cuda.synchronize()
        return time.perf_counter() - started_at

    once()
    return min(once() for _ in range(REPEATS))
