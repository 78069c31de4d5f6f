"""Keys and values of many dialogues at once, a row each, kept from turn to turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin

STEP = 256
"""Tokens by which rows grow, so that they seldom have to be copied."""


@dataclass(eq=False)
class LayerRows:
    """One layer's keys and values, each (rows, heads, capacity, width)."""

    keys: torch.Tensor
    values: torch.Tensor


class RowSlots:
    """The rows of a model's layers, of one capacity; row i holds `lengths[i]` tokens from its start.

    `most_bytes` is the most that they took so far. What lies beyond a row's length is garbage that
    masks keep out. Rows are moved by `swap`, so that those that are written to stand first and are
    seen without being copied.
    """

    def __init__(self) -> None:
        self.layers: list[LayerRows] = []
        self.lengths: list[int] = []
        self.rows = 0
        self.capacity = 0
        self.bytes_per_token = 0
        self.most_bytes = 0

    @property
    def bytes(self) -> int:
        """What the rows take, used or not."""
        return self.rows * self.capacity * self.bytes_per_token

    def bytes_for(self, rows: int, tokens: int) -> int:
        """Return what so many rows of so many tokens take, rounded up as `reserve` does."""
        return max(rows, self.rows) * max(_rounded(tokens), self.capacity) * self.bytes_per_token

    def learn(self, written: Sequence[LayerRows]) -> None:
        """Take the layers' shapes, number formats and devices from what one call of the model wrote."""
        for layer in written:
            empty = [
                part.new_empty((0, part.shape[1], 0, part.shape[3]))
                for part in (layer.keys, layer.values)
            ]
            self.layers.append(LayerRows(*empty))
        self.bytes_per_token = sum(
            part.shape[1] * part.shape[3] * part.element_size()
            for layer in written
            for part in (layer.keys, layer.values)
        )

    def reserve(self, rows: int, tokens: int) -> None:
        """Make room for so many rows of so many tokens; a layer at a time, what is there is copied.

        Raises what the allocator raises; nothing is lost then.
        """
        rows, tokens = max(rows, self.rows), max(_rounded(tokens), self.capacity)
        if rows > self.rows or tokens > self.capacity:
            self._resize(rows, tokens, len(self.lengths))
            self.lengths += [0] * (rows - len(self.lengths))

    def shrink(self, rows: int, tokens: int) -> None:
        """Keep only the first rows, with room for so many tokens and no more."""
        self._resize(rows, _rounded(tokens), rows)
        del self.lengths[rows:]

    def _resize(self, rows: int, tokens: int, kept: int) -> None:
        """Move every layer into new tensors of so many rows and tokens; the first rows are kept."""
        with torch.inference_mode():
            used = min(max(self.lengths[:kept], default=0), tokens)
            for layer in self.layers:
                for name in ("keys", "values"):
                    old = getattr(layer, name)
                    if old.shape[0] == rows and old.shape[2] == tokens:
                        continue  # an attempt that ran out of memory came this far
                    # Garbage that is masked must still be finite: 0 × NaN is NaN.
                    new = old.new_zeros((rows, old.shape[1], tokens, old.shape[3]))
                    new[:kept, :, :used] = old[:kept, :, :used]
                    setattr(layer, name, new)
            self.rows, self.capacity = rows, tokens
            self.most_bytes = max(self.most_bytes, self.bytes)

    def swap(self, a: int, b: int) -> None:
        """Let two rows change places."""
        with torch.inference_mode():
            if a == b:
                return
            longest = max(self.lengths[a], self.lengths[b])
            for layer in self.layers:
                for part in (layer.keys, layer.values):
                    kept = part[a, :, :longest].clone()
                    part[a, :, :longest] = part[b, :, :longest]
                    part[b, :, :longest] = kept
            self.lengths[a], self.lengths[b] = self.lengths[b], self.lengths[a]

    def copy(self, source: int, target: int) -> None:
        """Make one row the copy of another."""
        with torch.inference_mode():
            length = self.lengths[source]
            for layer in self.layers:
                for part in (layer.keys, layer.values):
                    part[target, :, :length] = part[source, :, :length]
            self.lengths[target] = length

    def taken(self, row: int, length: int) -> list[LayerRows]:
        """Return a copy of the first tokens of a row, as one row a layer."""
        return [
            LayerRows(
                layer.keys[row : row + 1, :, :length].clone(),
                layer.values[row : row + 1, :, :length].clone(),
            )
            for layer in self.layers
        ]

    def put(self, row: int, start: int, written: Sequence[LayerRows], place: int) -> None:
        """Write the last tokens of the `place`-th row of `written` from `start` on; room is reserved.

        written: (rows, heads, tokens, width) a layer, padded on the left.
        """
        with torch.inference_mode():
            tokens = self.lengths[row] - start
            if not tokens:
                return
            for layer, new in zip(self.layers, written, strict=True):
                layer.keys[row, :, start : start + tokens] = new.keys[place, :, -tokens:]
                layer.values[row, :, start : start + tokens] = new.values[place, :, -tokens:]

    def gathered(self, rows: Sequence[int], length: int, room: int) -> list[LayerRows]:
        """Return copies of the first tokens of some rows, with room for so many more behind them.

        (rows, heads, length + room, width) a layer.
        """
        copies = []
        for layer in self.layers:
            parts = []
            for part in (layer.keys, layer.values):
                copy = part.new_empty((len(rows), part.shape[1], length + room, part.shape[3]))
                for place, row in enumerate(rows):
                    copy[place, :, :length] = part[row, :, :length]
                parts.append(copy)
            copies.append(LayerRows(*parts))
        return copies


class _Layer(CacheLayerMixin):  # type: ignore[misc]  # the library gives no types
    """What a layer of the model sees of a cache; `update` is what differs."""

    is_sliding = False

    def __init__(self, tokens: int) -> None:
        super().__init__()
        self.tokens = tokens
        self.is_initialized = True

    def lazy_initialization(self, key_states: Any, value_states: Any) -> None:
        """Nothing is left to do."""

    def get_seq_length(self) -> int:
        """Return how many tokens come before those of this call, padding included."""
        return self.tokens

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Return how many tokens are attended to, and from which on."""
        return self.tokens + query_length, 0

    def get_max_length(self) -> int:
        """There is no limit."""
        return -1

    def get_max_cache_shape(self) -> int:
        """There is no limit; the name that older versions of the library have for it."""
        return -1


class _PrefillLayer(_Layer):
    """Puts new keys and values behind those of earlier turns, and keeps the new ones."""

    def __init__(self, past: LayerRows | None, tokens: int) -> None:
        super().__init__(tokens)
        self.past = past
        self.written: LayerRows | None = None

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **more: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return all keys and values; the new ones are written into the room behind the others."""
        self.written = LayerRows(key_states, value_states)
        if self.past is None:
            return key_states, value_states
        self.past.keys[:, :, self.tokens :] = key_states
        self.past.values[:, :, self.tokens :] = value_states
        return self.past.keys, self.past.values


class _DecodeLayer(_Layer):
    """Writes one token of each of the first rows into its row, in place."""

    def __init__(self, rows: LayerRows, ends: torch.Tensor, longest: int) -> None:
        super().__init__(longest)
        self.rows = rows
        self.ends = ends
        self.first = torch.arange(len(ends), device=rows.keys.device)

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **more: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the keys and values of these rows, up to the longest's new token; nothing is copied."""
        count, until = len(self.ends), self.tokens + 1
        ends = self.ends.to(self.rows.keys.device)
        self.rows.keys[self.first, :, ends] = key_states[:, :, 0]
        self.rows.values[self.first, :, ends] = value_states[:, :, 0]
        return self.rows.keys[:count, :, :until], self.rows.values[:count, :, :until]


class PrefillCache(Cache):  # type: ignore[misc]
    """The cache of one call that reads new tokens behind those of earlier turns.

    past: copies with room for the new ones, (rows, heads, tokens + new ones, width) a layer. Where
    there are none, layers come into being as the model asks for them.
    """

    def __init__(self, past: Sequence[LayerRows], tokens: int) -> None:
        if past:
            super().__init__(layers=[_PrefillLayer(layer, tokens) for layer in past])
        else:
            super().__init__(layer_class_to_replicate=_FirstLayer)

    @property
    def written(self) -> list[LayerRows]:
        """The keys and values of the new tokens, a layer each."""
        return [layer.written for layer in self.layers]


class _FirstLayer(_PrefillLayer):
    """A layer with nothing before it."""

    def __init__(self) -> None:
        super().__init__(None, 0)


class DecodeCache(Cache):  # type: ignore[misc]
    """The cache of one call that writes one token more to each of the first rows of the slots."""

    def __init__(self, slots: RowSlots, count: int) -> None:
        lengths = slots.lengths[:count]
        ends = torch.tensor(lengths, device=slots.layers[0].keys.device)
        longest = max(lengths)
        super().__init__(layers=[_DecodeLayer(layer, ends, longest) for layer in slots.layers])


def _rounded(tokens: int) -> int:
    return -(-tokens // STEP) * STEP
