"""Prefill: computes the new tokens of several prompts in one call of the model, packed without padding."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from math import isqrt
from typing import Any

import numpy as np
import torch

from render_agent.engines.families.images import Tensors, concatenate
from render_agent.engines.families.model_families import Family
from render_agent.engines.transformers.attention import (
    KeyRecorder,
    PackedPrompt,
    PrefillAttention,
    can_use_flash,
    logits_of,
    page_index,
)
from render_agent.engines.transformers.fixed_shapes import FixedShapes, one_image_per_call
from render_agent.engines.transformers.kv_cache import CachedSequence, KVCache
from render_agent.engines.transformers.model.inputs import PreparedPrompt, PromptImage
from render_agent.engines.transformers.model.load import LoadedModel
from render_agent.engines.transformers.model.recurrent_state import ZERO, StateCall, StatePool


@dataclass(frozen=True, slots=True)
class UnreadPrompt:
    """A prompt whose tokens from `start` to `end` have to be computed; the earlier ones are in the cache."""

    prompt: PreparedPrompt
    sequence: CachedSequence
    start: int = 0
    image_tensors: Sequence[Tensors] = ()
    """Tensors of the images that begin between `start` and `end`."""
    end: int | None = None  # None for the end of the prompt

    @property
    def ids(self) -> tuple[int, ...]:
        """The tokens of the prompt up to `end`."""
        return self.prompt.ids[: self.end]

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """Start and end of the images between `start` and `end`."""
        images = (i for i in self.prompt.images if self.start <= i.start < len(self.ids))
        return tuple((image.start, image.start + image.tokens) for image in images)


def token_positions(prompt: PreparedPrompt, axes: int) -> np.ndarray:
    """Return the positions of a prompt's tokens, (axes, tokens) int64.

    Three axes (time, height, width) are those of Qwen-VL: text advances by one on all axes, the tokens of an image are at
    its rows and columns, and the following text continues after its longer side.
    """
    count = len(prompt.ids)
    if axes == 1:
        return np.arange(count)[None]
    result = np.empty((3, count), dtype=np.int64)
    done = position = 0
    for image in prompt.images:
        rows, columns = _sides(image)
        start, end = image.start, image.start + image.tokens
        result[:, done:start] = np.arange(position, position + start - done)
        position += start - done
        result[0, start:end] = position
        result[1, start:end] = position + np.arange(rows).repeat(columns)
        result[2, start:end] = position + np.tile(np.arange(columns), rows)
        position, done = position + max(rows, columns), end
    result[:, done:] = np.arange(position, position + count - done)
    return result


def next_position(prompt: PreparedPrompt, axes: int) -> int:
    """Return the position of the token after a prompt."""
    if axes == 1:
        return len(prompt.ids)
    return len(prompt.ids) - sum(i.tokens - max(_sides(i)) for i in prompt.images)


def new_cache(loaded: LoadedModel, budget: int | None = None, rows: int = 1) -> KVCache:
    """Return an empty cache for a model, laid out like the keys and values of a trial call.

    On a GPU, all of `budget` is allocated now, at most half of it for recurrent states of `rows` dialogues. Without a
    budget, the cache grows as needed. Raises any error of the allocator, and of a model without support for our attention.
    """
    model, family = loaded.model, loaded.inputs.family
    zero = torch.zeros(1, dtype=torch.long, device=model.device)
    pool = StatePool(model) if family.recurrent else None
    recorder = KeyRecorder(None if pool is None else StateCall(pool, [(0, 1, ZERO, None)]))
    logits_of(model, recorder, zero + loaded.pad, zero.expand(family.axes, 1), 1)
    grows = budget is None or model.device.type != "cuda"
    cache = KVCache(sys.maxsize if budget is None else budget, grows)
    if pool is not None:
        pool.reserve_special_slots()
        if not grows:
            half = (budget or 0) // 2
            pool.grow(max(1, min(rows, half // max(1, pool.bytes_per_sequence))))
    cache.allocate(recorder.layers, pool)
    cache.has_windows = recorder.has_windows
    return cache


def prefill(
    model: Any,
    cache: KVCache,
    entries: Sequence[UnreadPrompt],
    family: Family,
    shapes: FixedShapes | None = None,
) -> torch.Tensor:
    """Compute the unread tokens of several prompts, whose pages are reserved, in one call of the model.

    With fixed shapes, the call is padded, and the entries have to be blocks. Returns the logits after the last computed
    token of each prompt, (prompts, vocabulary) float32. Raises any error of the model; the call can be repeated.
    """
    two_way = family.two_way(model.config.get_text_config())
    totals = [len(entry.ids) for entry in entries]
    bounds = np.cumsum([0, *(len(entry.ids) - entry.start for entry in entries)])
    slots = [entry.sequence.slots(0, total) for entry, total in zip(entries, totals, strict=True)]
    new_positions = [
        token_positions(entry.prompt, family.axes)[:, entry.start : len(entry.ids)]
        for entry in entries
    ]
    device = model.device
    used = int(bounds[-1])
    size, kept = (used, len(entries)) if shapes is None else shapes.sizes(used, len(entries))
    padding = (0, size - used)
    more_bounds = [size] if padding[1] else []
    new_ids = np.concatenate([np.asarray(entry.ids[entry.start :]) for entry in entries])
    written = np.concatenate(
        [own[entry.start :] for own, entry in zip(slots, entries, strict=True)]
    )
    arrays = (
        np.pad(new_ids, padding, constant_values=0 if shapes is None else shapes.pad),
        np.pad(np.concatenate(new_positions, axis=1), ((0, 0), padding)),
        np.pad(written, padding),  # padding writes to the scratch page
        np.concatenate(slots),
        np.pad(bounds[1:] - 1, (0, kept - len(entries))),
        np.concatenate([bounds, more_bounds]).astype(np.int64),
        np.cumsum([0, *totals, *[0] * len(more_bounds)]),
    )
    ids, positions, new_slots, all_slots, last, new_bounds, all_bounds = (
        torch.from_numpy(array).to(device) for array in arrays
    )
    packed = [
        PackedPrompt(
            int(bounds[n]),
            int(bounds[n + 1]),
            page_index(entry.sequence.pages, device),
            totals[n],
            () if two_way == "never" else entry.spans,
        )
        for n, entry in enumerate(entries)
    ]
    flash: dict[str, Any] = {}
    if can_use_flash(model) and cache.uses_kernels:
        flash = {
            "all_slots": all_slots,
            "bounds": (new_bounds.int(), all_bounds.int()),
            "max_lengths": (int(np.diff(bounds).max()) if shapes is None else size, max(totals)),
        }
    states = _state_call(cache, entries, bounds)
    usage: dict[str, Any] = {"states": states, "fused": cache.uses_kernels}
    call = PrefillAttention(cache.layers, new_slots, packed, **flash, two_way=two_way, **usage)
    images = _image_inputs(model, entries)
    inputs = concatenate(images, family.image_axis) if images else {}
    with one_image_per_call(model, images) if shapes and images else nullcontext():
        logits = logits_of(model, call, ids, positions, last, **inputs)
    # MiniCPM-V ignores `logits_to_keep` and returns the logits of all tokens.
    return (logits if len(logits) == kept else logits[last])[: len(entries)].float()


def _state_call(
    cache: KVCache, entries: Sequence[UnreadPrompt], bounds: np.ndarray
) -> StateCall | None:
    """Return the use of recurrent states for packed prompts; None if the model has none."""
    if cache.states is None:
        return None
    parts = [
        (int(first) + start - entry.start, int(first) + end - entry.start, source, target)
        for first, entry in zip(bounds, entries, strict=False)
        for start, end, source, target in entry.sequence.states.parts(
            entry.start, entry.prompt.stable_tokens, len(entry.ids)
        )
    ]
    return StateCall(cache.states, parts)


def _sides(image: PromptImage) -> tuple[int, int]:
    """Return the rows and columns of an image's tokens, each of which covers a square of patches."""
    assert image.grid is not None
    _, rows, columns = image.grid
    merge = isqrt(rows * columns // image.tokens)
    return rows // merge, columns // merge


def _image_inputs(model: Any, entries: Sequence[UnreadPrompt]) -> list[Tensors]:
    """Return the model inputs for each image among the unread tokens, moved to the model's device."""
    return [
        {
            name: part.to(
                model.device, model.dtype if part.is_floating_point() else None, non_blocking=True
            )
            for name, part in image.items()
        }
        for entry in entries
        for image in entry.image_tensors
    ]
