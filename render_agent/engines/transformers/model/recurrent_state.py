"""Recurrent states: what layers without keys carry from token to token, in slots beside the pages of a KV cache.

A state cannot be taken back to where it was some tokens ago. So the one before the last generation prompt is
kept: a dialogue's history may hold the reply in other tokens than it was written in, or leave its thoughts out.
"""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Iterator
from collections.abc import Sequence as Several
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, TypeAlias

import torch

ZERO, SCRATCH = 0, 1
"""The slot of a dialogue's beginning, which nobody writes, and the one of rows that only fill up a batch."""

KEPT, LIVE, SPARE = 0, 1, 2
"""A dialogue's slots, in this order: before its last generation prompt, behind its newest token, to be written next.

A call reads one and writes another, so that it can be made again where it fails.
"""

SLOTS = 3
"""Slots of a dialogue whose reply is written."""


@dataclass(eq=False)
class SequenceStates:
    """The slots of one dialogue, and how many of its tokens two of them stand behind; none for other models."""

    slots: list[int] = field(default_factory=list)
    kept_at: int = 0
    live_at: int = 0
    _next: tuple[list[int], int, int] | None = None

    def cached_tokens(self, tokens: int) -> int:
        """Return behind how many tokens, at most so many, there is a state."""
        standing = [self.kept_at, self.live_at if len(self.slots) > LIVE else 0]
        return max((place for place in standing if place <= tokens), default=0)

    def source(self, start: int) -> int:
        """Return the slot of the state behind so many tokens."""
        if not start:
            return ZERO
        return self.slots[KEPT if start == self.kept_at else LIVE]

    def parts(self, start: int, kept: int, end: int) -> list[tuple[int, int, int, int]]:
        """Return how the tokens from `start` to `end` are read, so that the state behind `kept` is kept too.

        Each part: where it starts and ends, the slot that it goes on from, and the one that it leaves its state in.
        """
        source = self.source(start)
        first, second = [slot for slot in reversed(self.slots) if slot != source][:2]
        if not start < kept < end:
            spare = next(slot for slot in self.slots[LIVE:] if slot != first)
            self._next = [self.slots[KEPT], first, spare], self.kept_at, end
            return [(start, end, source, first)]
        spare = next(slot for slot in self.slots if slot not in (first, second))
        self._next = [first, second, spare], kept, end
        return [(start, kept, source, first), (kept, end, first, second)]

    def mark_read(self) -> None:
        """What was to be read has been."""
        if self._next is not None:
            (self.slots, self.kept_at, self.live_at), self._next = self._next, None

    def mark_written(self) -> None:
        """A token more has been written."""
        if self.slots:
            self.slots[LIVE], self.slots[SPARE] = self.slots[SPARE], self.slots[LIVE]
            self.live_at += 1


class StatePool:
    """The states of all dialogues: for every recurrent layer its tensors, each (slots, …)."""

    def __init__(self, model: Any) -> None:
        """Find a model's recurrent layers: those with a convolution along the tokens. Slots come later."""
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
        """Bytes of one state."""
        return sum(
            part.shape[1:].numel() * part.element_size()
            for parts in self.layers.values()
            for part in parts
        )

    @property
    def bytes(self) -> int:
        """What all states take, used or not."""
        return self.count * self.slot_bytes

    @property
    def bytes_per_sequence(self) -> int:
        """What the states of a dialogue take whose reply is written."""
        return SLOTS * self.slot_bytes

    def grow(self, dialogues: int = 1) -> None:
        """Make room for the states of so many dialogues more. Raises what the allocator raises."""
        there, count = self.count, self.count + SLOTS * dialogues
        with torch.inference_mode():
            for parts in self.layers.values():
                for place, old in enumerate(parts):
                    if len(old) < count:
                        parts[place] = old.new_zeros((count, *old.shape[1:]))
                        parts[place][:there] = old[:there]
        self._free += range(there, count)
        self.count = count

    def reserve(self, states: SequenceStates, room: int) -> bool:
        """Give a dialogue all its slots; whether there are enough. room: bytes by which the pool may grow."""
        missing = SLOTS - len(states.slots)
        if missing > len(self._free):
            fitting = room // max(1, self.bytes_per_sequence)
            if not fitting:
                return False
            self.grow(min(fitting, max(1, self.count // (2 * SLOTS))))
        states.slots += [self._free.pop() for _ in range(missing)]
        return True

    def rest(self, states: SequenceStates, keeps_reply: bool) -> None:
        """Take back what a dialogue does not need until its next turn.

        keeps_reply: whether its next prompt may go on behind the very tokens of its reply.
        """
        needed = LIVE + 1 if keeps_reply else KEPT + 1
        self._free += states.slots[needed:]
        del states.slots[needed:]

    def release(self, states: SequenceStates) -> None:
        """Take back all slots of a dialogue."""
        self._free += states.slots
        states.slots, states.kept_at, states.live_at = [], 0, 0

    def copy(self, source: SequenceStates, target: SequenceStates, tokens: int) -> None:
        """Let a dialogue, which has its slots, begin with another's state behind so many tokens."""
        with torch.inference_mode():
            for parts in self.layers.values():
                for part in parts:
                    part[target.slots[KEPT]] = part[source.source(tokens)]
        target.kept_at = tokens

    def set_aside(self) -> None:
        """Make the slots that belong to no dialogue."""
        self.grow()
        self._free = [slot for slot in self._free if slot not in (ZERO, SCRATCH)]

    def read(self, layer: int, slots: torch.Tensor) -> list[torch.Tensor]:
        """Return copies of a layer's tensors in the slots of several rows, each (rows, …)."""
        return [part.index_select(0, slots.to(part.device)) for part in self.layers[layer]]

    def write(self, layer: int, slots: torch.Tensor | None, parts: Several[torch.Tensor]) -> None:
        """Put a layer's tensors, each (rows, …), into slots; without slots, lay the layer out after them."""
        if slots is None:
            self.layers[layer] = [part.new_zeros((0, *part.shape[1:])) for part in parts]
            return
        for own, part in zip(self.layers[layer], parts, strict=True):
            own.index_copy_(0, slots.to(own.device), part)


Batch: TypeAlias = "tuple[int, tuple[int, ...], torch.Tensor | None, torch.Tensor | None]"
"""Parts that are read side by side: how many tokens each has, where each starts, and the slots of each."""


@dataclass(frozen=True)
class StateCall:
    """What one call of the model does in its recurrent layers.

    parts: of prompts that are read, as `SequenceStates.parts` gives them, among the tokens of the call; without a
    slot to leave its state in, a part lays the pool out. Parts of one length, such as generation prompts, are read
    side by side. Or rows: of one new token each, the slots to go on from and to write to, (rows,) int64 each.
    """

    pool: StatePool
    parts: Several[tuple[int, int, int, int | None]] = ()
    rows: tuple[torch.Tensor, torch.Tensor] | None = None

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Let the layers go on from these states within."""
        before = [vars(module).get("forward") for module in self.pool.modules]
        try:
            for module in self.pool.modules:
                module.forward = partial(self._forward, module.layer_idx, module.forward)
            yield
        finally:
            for module, forward in zip(self.pool.modules, before, strict=True):
                del module.forward
                if forward is not None:
                    module.forward = forward

    @cached_property
    def batches(self) -> list[Batch]:
        """The parts in batches of one length, those that go on from another behind it."""
        written = {target for *_, target in self.parts}
        alike = defaultdict(list)
        for start, end, source, target in self.parts:
            alike[source in written, source == ZERO, end - start].append((start, source, target))
        batches: list[Batch] = []
        for (_, begins, length), batch in sorted(alike.items()):
            starts, sources, targets = zip(*batch, strict=True)
            batches.append(
                (
                    length,
                    starts,
                    None if begins else torch.tensor(sources),
                    None if None in targets else torch.tensor(targets),
                )
            )
        return batches

    def _forward(self, layer: int, plain: Any, hidden_states: torch.Tensor, **more: Any) -> Any:
        """Return what a layer makes of the hidden states of packed tokens, (1, tokens, width)."""
        name = self.pool.names[layer]

        def passed(states: torch.Tensor, sources: Any, targets: Any) -> torch.Tensor:
            state = LayerState(*(() if sources is None else self.pool.read(layer, sources)))
            hidden: torch.Tensor = plain(hidden_states=states, **{**more, name: state})
            self.pool.write(layer, targets, state.parts)
            return hidden

        if self.rows is not None:
            return passed(hidden_states.transpose(0, 1), *self.rows).transpose(0, 1)
        made: dict[int, torch.Tensor] = {}
        for length, starts, sources, targets in self.batches:
            rows = torch.cat([hidden_states[:, start : start + length] for start in starts])
            made.update(zip(starts, passed(rows, sources, targets).split(1), strict=True))
        return torch.cat([made[start] for start in sorted(made)], dim=1)


class LayerState:
    """The state of one recurrent layer in the form of the library's caches, as far as its layers ask them."""

    def __init__(
        self, conv: torch.Tensor | None = None, recurrent: torch.Tensor | None = None
    ) -> None:
        self.conv = conv
        self.recurrent = recurrent

    @property
    def parts(self) -> list[torch.Tensor]:
        """The tensors that there are."""
        return [part for part in (self.conv, self.recurrent) if part is not None]

    def get_conv_state(self, layer_idx: int, state_idx: int = 0) -> torch.Tensor | None:
        """Return the last inputs of the convolution; None at the beginning."""
        _refuse_others(state_idx)
        return self.conv

    def get_recurrent_state(self, layer_idx: int, state_idx: int = 0) -> torch.Tensor | None:
        """Return the recurrent state; None at the beginning."""
        _refuse_others(state_idx)
        return self.recurrent

    def has_previous_state(self, layer_idx: int | None = None, state_idx: int = 0) -> bool:
        """Whether anything was read before."""
        return self.conv is not None

    def is_recording_past(self, layer_idx: int) -> bool:
        """Whether states are kept for every token: never."""
        return False

    def update_conv_state(
        self,
        conv_states: torch.Tensor,
        layer_idx: int,
        state_idx: int = 0,
        conv_kernel_size: int | None = None,
        **more: Any,
    ) -> torch.Tensor:
        """Take the newest inputs of the convolution, (rows, channels, tokens), and return them behind the old."""
        _refuse_others(state_idx)
        width = conv_kernel_size or conv_states.shape[-1]
        if self.conv is None:
            missing = max(0, width - conv_states.shape[-1])
            whole = torch.nn.functional.pad(conv_states, (missing, 0))
        else:
            whole = torch.cat([self.conv, conv_states], dim=-1)
        self.conv = whole[..., -width:]
        return whole

    def update_recurrent_state(
        self, recurrent_states: torch.Tensor, layer_idx: int, state_idx: int = 0, **more: Any
    ) -> torch.Tensor:
        """Take the newest recurrent state."""
        _refuse_others(state_idx)
        self.recurrent = recurrent_states
        return recurrent_states


def _refuse_others(state: int) -> None:
    if state:
        raise NotImplementedError("a layer with several states is not known")
