"""States of recurrent layers, in slots next to the pages of a KV cache.

A state cannot be rewound to an earlier token, so the state before the last generation prompt is kept: the history of a
dialogue may tokenize a reply differently or omit its thoughts.
"""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, TypeAlias

import torch

ZERO, SCRATCH = 0, 1  # slots of the initial state (never written) and of padding rows (never read)

# Slots of a dialogue: the state before its last generation prompt, the state after its newest token, and the target of
# the next call. A call never writes the slot that it reads, so that it can be repeated after a failure.
SNAPSHOT, LIVE, SPARE = 0, 1, 2
SLOTS = 3


@dataclass(eq=False)
class SequenceStates:
    """The state slots of one dialogue; empty for models without recurrent layers."""

    slots: list[int] = field(default_factory=list)
    snapshot_tokens: int = 0  # number of tokens before the state in slot SNAPSHOT
    live_tokens: int = 0  # number of tokens before the state in slot LIVE
    _next: tuple[list[int], int, int] | None = None

    def cached_tokens(self, tokens: int) -> int:
        """Return the largest number of tokens, at most `tokens`, after which a state is stored."""
        stored = [self.snapshot_tokens, self.live_tokens if len(self.slots) > LIVE else 0]
        return max((count for count in stored if count <= tokens), default=0)

    def source(self, start: int) -> int:
        """Return the slot of the state after `start` tokens."""
        if not start:
            return ZERO
        return self.slots[SNAPSHOT if start == self.snapshot_tokens else LIVE]

    def parts(self, start: int, snapshot: int, end: int) -> list[tuple[int, int, int, int]]:
        """Plan the read of the tokens from `start` to `end`, storing the state after `snapshot` tokens, too.

        Returns one or two parts: start, end, slot of the state before it, and slot for the state after it.
        """
        source = self.source(start)
        first, second = [slot for slot in reversed(self.slots) if slot != source][:2]
        if not start < snapshot < end:
            spare = next(slot for slot in self.slots[LIVE:] if slot != first)
            self._next = [self.slots[SNAPSHOT], first, spare], self.snapshot_tokens, end
            return [(start, end, source, first)]
        spare = next(slot for slot in self.slots if slot not in (first, second))
        self._next = [first, second, spare], snapshot, end
        return [(start, snapshot, source, first), (snapshot, end, first, second)]

    def mark_read(self) -> None:
        """Record that the planned parts have been read."""
        if self._next is not None:
            (self.slots, self.snapshot_tokens, self.live_tokens), self._next = self._next, None

    def mark_written(self) -> None:
        """Record that one more token has been generated."""
        if self.slots:
            self.slots[LIVE], self.slots[SPARE] = self.slots[SPARE], self.slots[LIVE]
            self.live_tokens += 1


class StatePool:
    """The states of all dialogues: for every recurrent layer its tensors, each (slots, …).

    Layers with a convolution along the tokens are recurrent. No slots are allocated initially.
    """

    def __init__(self, model: Any) -> None:
        self.modules = [
            module
            for module in model.modules()
            if hasattr(module, "layer_idx")
            and any(isinstance(child, torch.nn.Conv1d) for child in module.children())
        ]
        self.names = {
            module.layer_idx: "cache_params"
            if "cache_params" in inspect.signature(module.forward).parameters
            else "past_key_values"
            for module in self.modules
        }
        self.layers: dict[int, list[torch.Tensor]] = {}
        self.count = 0
        self._free: list[int] = []

    @property
    def slot_bytes(self) -> int:
        """Size of one state in bytes."""
        return sum(
            part.shape[1:].numel() * part.element_size()
            for parts in self.layers.values()
            for part in parts
        )

    @property
    def bytes(self) -> int:
        """Size of all slots in bytes."""
        return self.count * self.slot_bytes

    @property
    def bytes_per_sequence(self) -> int:
        """Size of a dialogue's states in bytes while its reply is generated."""
        return SLOTS * self.slot_bytes

    def grow(self, dialogues: int = 1) -> None:
        """Allocate slots for this many more dialogues. Raises any error of the allocator."""
        allocated, count = self.count, self.count + SLOTS * dialogues
        with torch.inference_mode():
            for parts in self.layers.values():
                for index, old in enumerate(parts):
                    if len(old) < count:
                        parts[index] = old.new_zeros((count, *old.shape[1:]))
                        parts[index][:allocated] = old[:allocated]
        self._free += range(allocated, count)
        self.count = count

    def reserve(self, states: SequenceStates, room: int) -> bool:
        """Reserve all slots of a dialogue; return False if there are too few and `room` bytes are too little to grow."""
        missing = SLOTS - len(states.slots)
        if missing > len(self._free):
            fitting = room // max(1, self.bytes_per_sequence)
            if not fitting:
                return False
            self.grow(min(fitting, max(1, self.count // (2 * SLOTS))))
        states.slots += [self._free.pop() for _ in range(missing)]
        return True

    def trim(self, states: SequenceStates, keeps_reply: bool) -> None:
        """Release the slots that a dialogue does not need until its next turn.

        With `keeps_reply`, the next prompt contains the reply's exact tokens, so that the state after it is kept.
        """
        needed = LIVE + 1 if keeps_reply else SNAPSHOT + 1
        self._free += states.slots[needed:]
        del states.slots[needed:]

    def release(self, states: SequenceStates) -> None:
        """Release all slots of a dialogue."""
        self._free += states.slots
        states.slots, states.snapshot_tokens, states.live_tokens = [], 0, 0

    def copy(self, source: SequenceStates, target: SequenceStates, tokens: int) -> None:
        """Initialize a dialogue, whose slots are reserved, with another's state after this many tokens."""
        with torch.inference_mode():
            for parts in self.layers.values():
                for part in parts:
                    part[target.slots[SNAPSHOT]] = part[source.source(tokens)]
        target.snapshot_tokens = tokens

    def reserve_special_slots(self) -> None:
        """Allocate the slots ZERO and SCRATCH."""
        self.grow()
        self._free = [slot for slot in self._free if slot not in (ZERO, SCRATCH)]

    def read(self, layer: int, slots: torch.Tensor) -> list[torch.Tensor]:
        """Return copies of a layer's tensors for several rows, each (rows, …)."""
        return [part.index_select(0, slots.to(part.device)) for part in self.layers[layer]]

    def write(self, layer: int, slots: torch.Tensor | None, parts: Sequence[torch.Tensor]) -> None:
        """Store a layer's tensors, each (rows, …), in slots; if `slots` is None, lay out the layer like them."""
        if slots is None:
            self.layers[layer] = [part.new_zeros((0, *part.shape[1:])) for part in parts]
            return
        for own, part in zip(self.layers[layer], parts, strict=True):
            own.index_copy_(0, slots.to(own.device), part)


Batch: TypeAlias = "tuple[int, tuple[int, ...], torch.Tensor | None, torch.Tensor | None]"
"""Parts of the same length that are read together: length, start of each, source slots and target slots."""


@dataclass(frozen=True)
class StateCall:
    """The use of recurrent states in one call of the model: either `parts` (prefill) or `rows` (decoding)."""

    pool: StatePool
    parts: Sequence[tuple[int, int, int, int | None]] = ()
    """Parts as returned by `SequenceStates.parts`, with positions among the packed tokens of the call. If the target
    slot is None, the call lays out the pool."""
    rows: tuple[torch.Tensor, torch.Tensor] | None = None
    """Source and target slots of rows with one new token each, (rows,) int64 each."""

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Make the recurrent layers use these states within the context."""
        originals = [vars(module).get("forward") for module in self.pool.modules]
        try:
            for module in self.pool.modules:
                module.forward = partial(self._forward, module.layer_idx, module.forward)
            yield
        finally:
            for module, forward in zip(self.pool.modules, originals, strict=True):
                del module.forward
                if forward is not None:
                    module.forward = forward

    @cached_property
    def batches(self) -> list[Batch]:
        """The parts grouped by length; parts that depend on the state after another part come last."""
        all_targets = {target for *_, target in self.parts}
        groups = defaultdict(list)
        for start, end, source, target in self.parts:
            key = source in all_targets, source == ZERO, end - start
            groups[key].append((start, source, target))
        batches: list[Batch] = []
        for (_, is_initial, length), group in sorted(groups.items()):
            starts, sources, targets = zip(*group, strict=True)
            batches.append(
                (
                    length,
                    starts,
                    None if is_initial else torch.tensor(sources),
                    None if None in targets else torch.tensor(targets),
                )
            )
        return batches

    def _forward(self, layer: int, plain: Any, hidden_states: torch.Tensor, **more: Any) -> Any:
        """Run a layer on the hidden states of packed tokens, (1, tokens, width)."""
        name = self.pool.names[layer]

        def run(states: torch.Tensor, sources: Any, targets: Any) -> torch.Tensor:
            state = LayerState(*(() if sources is None else self.pool.read(layer, sources)))
            hidden: torch.Tensor = plain(hidden_states=states, **{**more, name: state})
            self.pool.write(layer, targets, state.parts)
            return hidden

        if self.rows is not None:
            return run(hidden_states.transpose(0, 1), *self.rows).transpose(0, 1)
        outputs: dict[int, torch.Tensor] = {}
        for length, starts, sources, targets in self.batches:
            rows = torch.cat([hidden_states[:, start : start + length] for start in starts])
            outputs.update(zip(starts, run(rows, sources, targets).split(1), strict=True))
        return torch.cat([outputs[start] for start in sorted(outputs)], dim=1)


class LayerState:
    """The state of one recurrent layer, with the part of the library's cache interface that its layers use."""

    def __init__(
        self, conv: torch.Tensor | None = None, recurrent: torch.Tensor | None = None
    ) -> None:
        self.conv = conv
        self.recurrent = recurrent

    @property
    def parts(self) -> list[torch.Tensor]:
        return [part for part in (self.conv, self.recurrent) if part is not None]

    def get_conv_state(self, layer_idx: int, state_idx: int = 0) -> torch.Tensor | None:
        """Return the last inputs of the convolution; None initially."""
        return self.conv

    def get_recurrent_state(self, layer_idx: int, state_idx: int = 0) -> torch.Tensor | None:
        """Return the recurrent state; None initially."""
        return self.recurrent

    def has_previous_state(self, layer_idx: int | None = None, state_idx: int = 0) -> bool:
        """True if any token has been read."""
        return self.conv is not None

    def is_recording_past(self, layer_idx: int) -> bool:
        """Return False: states are not recorded for every token."""
        return False

    def update_conv_state(
        self,
        conv_states: torch.Tensor,
        layer_idx: int,
        state_idx: int = 0,
        conv_kernel_size: int | None = None,
        **more: Any,
    ) -> torch.Tensor:
        """Append new inputs of the convolution, (rows, channels, tokens), to the stored ones and return all."""
        _check_state_index(state_idx)
        width = conv_kernel_size or conv_states.shape[-1]
        if self.conv is None:
            missing = max(0, width - conv_states.shape[-1])
            inputs = torch.nn.functional.pad(conv_states, (missing, 0))
        else:
            inputs = torch.cat([self.conv, conv_states], dim=-1)
        self.conv = inputs[..., -width:]
        return inputs

    def update_recurrent_state(
        self, recurrent_states: torch.Tensor, layer_idx: int, state_idx: int = 0, **more: Any
    ) -> torch.Tensor:
        """Store the new recurrent state."""
        _check_state_index(state_idx)
        self.recurrent = recurrent_states
        return recurrent_states


def _check_state_index(state: int) -> None:
    if state:
        raise NotImplementedError("layers with several states are not supported")
