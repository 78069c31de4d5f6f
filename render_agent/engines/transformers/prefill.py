"""Prefill: the new tokens of many prompts read in one call of the model, packed without padding."""

from __future__ import annotations

import sys
from collections.abc import Sequence as Several
from dataclasses import dataclass
from math import isqrt
from typing import Any

import numpy as np
import torch

from render_agent.engines.families.model_families import Family
from render_agent.engines.families.pictures import Tensors, joined
from render_agent.engines.transformers.attention import (
    KeyRecorder,
    PackedPrompt,
    PrefillAttention,
    flash_runs,
    logits_of,
    page_index,
)
from render_agent.engines.transformers.kv_cache import KVCache, Sequence
from render_agent.engines.transformers.model.inputs import PreparedPrompt, PromptPicture
from render_agent.engines.transformers.model.load import LoadedModel
from render_agent.engines.transformers.model.recurrent_state import ZERO, StateCall, StatePool


@dataclass(frozen=True, slots=True)
class Unread:
    """A prompt of which a dialogue's pages hold the first `start` tokens: those up to `end` are to be read.

    values: the tensors of the pictures that are to be read. end: by default, that of the prompt.
    """

    prompt: PreparedPrompt
    sequence: Sequence
    start: int = 0
    values: Several[Tensors] = ()
    end: int | None = None

    @property
    def ids(self) -> tuple[int, ...]:
        """The tokens of the prompt up to `end`."""
        return self.prompt.ids[: self.end]

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """Where the pictures that are to be read begin and end."""
        shown = (p for p in self.prompt.shown if self.start <= p.start < len(self.ids))
        return tuple((picture.start, picture.start + picture.tokens) for picture in shown)


def chunk_end(prompt: PreparedPrompt, start: int, most: int) -> int:
    """Return up to where a call that takes so many tokens reads a prompt from `start` on: never half a picture."""
    end = min(len(prompt.ids), start + most)
    for picture in prompt.shown:
        if picture.start < end < picture.start + picture.tokens:
            return picture.start if picture.start > start else picture.start + picture.tokens
    return end


def positions(prompt: PreparedPrompt, axes: int) -> np.ndarray:
    """Return the positions of a prompt's tokens, (axes, tokens) int64.

    With three axes (time, height, width), as Qwen-VL counts: text goes on by one in all of them, a
    picture's tokens stand at its rows and columns, and what follows goes on behind the longer side.
    """
    count = len(prompt.ids)
    if axes == 1:
        return np.arange(count)[None]
    filled = np.empty((3, count), dtype=np.int64)
    done = position = 0
    for picture in prompt.shown:
        rows, columns = _sides(picture)
        start, end = picture.start, picture.start + picture.tokens
        filled[:, done:start] = np.arange(position, position + start - done)
        position += start - done
        filled[0, start:end] = position
        filled[1, start:end] = position + np.arange(rows).repeat(columns)
        filled[2, start:end] = position + np.tile(np.arange(columns), rows)
        position, done = position + max(rows, columns), end
    filled[:, done:] = np.arange(position, position + count - done)
    return filled


def next_position(prompt: PreparedPrompt, axes: int) -> int:
    """Return the position of the token behind a prompt."""
    if axes == 1:
        return len(prompt.ids)
    return len(prompt.ids) - sum(p.tokens - max(_sides(p)) for p in prompt.shown)


def new_cache(loaded: LoadedModel, budget: int | None = None, rows: int = 1) -> KVCache:
    """Return an empty cache for a model, laid out after what one call of it writes.

    budget: bytes; on a GPU all of it is allocated now, with states for so many rows where the model has any, in
    at most half of it. Without one it grows as it is filled, for trials. Raises what the allocator raises, and
    whatever a model does that does not take our attention.
    """
    model, family = loaded.model, loaded.inputs.family
    place = torch.zeros(1, dtype=torch.long, device=model.device)
    pool = StatePool(model) if family.recurrent else None
    recorder = KeyRecorder(None if pool is None else StateCall(pool, [(0, 1, ZERO, None)]))
    logits_of(model, recorder, place + loaded.pad, place.expand(family.axes, 1), 1)
    grows = budget is None or model.device.type != "cuda"
    cache = KVCache(sys.maxsize if budget is None else budget, grows)
    if pool is not None:
        pool.set_aside()
        if not grows:
            half = (budget or 0) // 2
            pool.grow(max(1, min(rows, half // max(1, pool.bytes_per_sequence))))
    cache.allocate(recorder.layers, pool)
    cache.has_windows = recorder.has_windows
    return cache


def read(model: Any, cache: KVCache, entries: Several[Unread], family: Family) -> torch.Tensor:
    """Read the unread tokens of some prompts in one call of the model; their pages are reserved.

    Returns the logits behind the last token read of each, (prompts, vocabulary) float32. Raises whatever the model
    causes; the call can be made again.
    """
    two_way = family.two_way(model.config.get_text_config())
    totals = [len(entry.ids) for entry in entries]
    bounds = np.cumsum([0, *(len(entry.ids) - entry.start for entry in entries)])
    slots = [entry.sequence.slots(0, total) for entry, total in zip(entries, totals, strict=True)]
    places = [
        positions(entry.prompt, family.axes)[:, entry.start : len(entry.ids)] for entry in entries
    ]
    device = model.device
    ids, place, new_slots, all_slots, last, new_bounds, all_bounds = _sent(
        device,
        np.concatenate([np.asarray(entry.ids[entry.start :]) for entry in entries]),
        np.concatenate(places, axis=1),
        np.concatenate([own[entry.start :] for own, entry in zip(slots, entries, strict=True)]),
        np.concatenate(slots),
        bounds[1:] - 1,
        bounds,
        np.cumsum([0, *totals]),
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
    if flash_runs(model):
        flash = {
            "all_slots": all_slots,
            "bounds": (new_bounds.int(), all_bounds.int()),
            "most": (int(np.diff(bounds).max()), max(totals)),
        }
    states = _state_call(cache, entries, bounds)
    call = PrefillAttention(
        cache.layers, new_slots, packed, **flash, two_way=two_way, states=states
    )
    pictures = _pictures(model, entries, family.picture_axis)
    logits = logits_of(model, call, ids, place, last, **pictures)
    # MiniCPM-V gives those of all tokens, whatever it is asked for.
    return (logits if len(logits) == len(entries) else logits[last]).float()


def _sent(device: Any, *arrays: np.ndarray) -> list[torch.Tensor]:
    """Return arrays as int64 tensors on a device, sent there in one piece."""
    packed = torch.from_numpy(np.concatenate([array.ravel() for array in arrays]))
    if device.type == "cuda":
        packed = packed.pin_memory()
    pieces = packed.to(device, non_blocking=True).split([array.size for array in arrays])
    return [piece.view(array.shape) for piece, array in zip(pieces, arrays, strict=True)]


def _state_call(cache: KVCache, entries: Several[Unread], bounds: np.ndarray) -> StateCall | None:
    """Return how recurrent layers read packed prompts, each in two parts so that a state is kept between them."""
    if cache.states is None:
        return None
    parts = [
        (int(first) + start - entry.start, int(first) + end - entry.start, source, target)
        for first, entry in zip(bounds, entries, strict=False)
        for start, end, source, target in entry.sequence.states.parts(
            entry.start, entry.prompt.kept, len(entry.ids)
        )
    ]
    return StateCall(cache.states, parts)


def _sides(picture: PromptPicture) -> tuple[int, int]:
    """Return the rows and columns of a picture's tokens, each of which is a square of patches."""
    assert picture.grid is not None
    _, rows, columns = picture.grid
    merged = isqrt(rows * columns // picture.tokens)
    return rows // merged, columns // merged


def _pictures(model: Any, entries: Several[Unread], axis: int) -> dict[str, torch.Tensor]:
    """Return the pictures among the unread tokens, prompt after prompt."""
    values = [picture for entry in entries for picture in entry.values]
    if not values:
        return {}
    return {
        name: part.to(model.device, model.dtype if part.is_floating_point() else None)
        for name, part in joined(values, axis).items()
    }
