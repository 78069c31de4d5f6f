"""The physical floor of a run: the least time that its reading and writing take on a device.

Prompts must be multiplied through the weights once, every written token reads the keys and values before it, and
every step reads the weights. What a run takes beyond the sum of these is its programs', not the device's.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from render_agent_lab.bench.figures import Work

REPEATS = 5
"""How often a copy and a product are timed; the best counts."""


@dataclass(frozen=True, slots=True)
class Rates:
    """What a device was measured to do: bytes copied a second, read and written both counted, and operations a second."""

    copied: float
    multiplied: float


def floor_seconds(model: Any, work: Work) -> float:
    """Return the floor of a run's work with a model, at the number of rows that were really written side by side."""
    rates = measured_rates(str(model.device), model.dtype)
    text = model.config.get_text_config()
    heads, width = text.num_attention_heads, getattr(text, "head_dim", None)
    width = width or text.hidden_size // heads
    size = model.dtype.itemsize
    kept = 2 * text.num_hidden_layers * text.num_key_value_heads * width * size
    whole = {name: weight for name, weight in model.named_parameters() if weight.dim() > 1}
    seeing = sum(w.numel() for name, w in whole.items() if "visual" in name or "vision" in name)
    words = text.vocab_size * text.hidden_size
    reading = sum(weight.numel() for weight in whole.values()) - seeing
    reading -= words * (1 if getattr(model.config, "tie_word_embeddings", False) else 2)
    # Beginnings that questions share need not be read again for each.
    operations = 2 * reading * min(work.first_seen, work.prefilled)
    operations += 4 * text.num_hidden_layers * heads * width * work.attended
    operations += 2 * seeing * work.patches
    moved = work.contexts * kept + work.steps * (reading + words) * size
    return float(operations / rates.multiplied + moved / rates.copied)


@cache
def measured_rates(device: str, dtype: Any) -> Rates:
    """Measure the rates of a device in one number format: a large copy, and a large product of random numbers."""
    import torch

    cuda = device.startswith("cuda")
    side = 8192 if cuda else 1024
    # What takes less memory than a run leaves free, and more than any cache holds.
    source = torch.empty((1 << 30) if cuda else (1 << 27), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    factor = torch.randn(side, side, device=device, dtype=dtype)
    copied = 2 * source.numel() / _best(lambda: target.copy_(source), cuda)
    return Rates(copied, 2 * side**3 / _best(lambda: factor @ factor, cuda))


def _best(call: Callable[[], Any], cuda: bool) -> float:
    """Return the least seconds that a call took."""
    import torch

    def once() -> float:
        began = time.perf_counter()
        call()
        if cuda:
            torch.cuda.synchronize()
        return time.perf_counter() - began

    once()
    return min(once() for _ in range(REPEATS))
