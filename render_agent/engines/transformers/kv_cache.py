"""The KV cache: keys and values of many dialogues in pages, which dialogues with a common prefix share."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
import torch

from render_agent.engines.transformers.fixed_shapes import common_blocks
from render_agent.engines.transformers.model.inputs import PreparedPrompt, common_tokens
from render_agent.engines.transformers.model.recurrent_state import SequenceStates, StatePool

PAGE_TOKENS = 256  # tokens per page
MIN_SHARED_TOKENS = 16  # shorter common prefixes are computed again rather than shared
SHARING_CANDIDATES = 8  # most recently used dialogues that are searched for a common prefix
SCRATCH_PAGE = 0  # page for padding rows; never read

# What prompts reuse of earlier ones: all common tokens, only complete blocks (see `fixed_shapes`), or nothing.
Reuse: TypeAlias = Literal["tokens", "blocks", "none"]


@dataclass(eq=False)
class LayerPages:
    """Keys and values of one layer, each (pages, PAGE_TOKENS, heads, width); their widths may differ."""

    keys: torch.Tensor
    values: torch.Tensor

    @property
    def flat(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Views of keys and values by slot, each (pages × PAGE_TOKENS, heads, width)."""
        return self.keys.flatten(0, 1), self.values.flatten(0, 1)


@dataclass(eq=False)
class CachedSequence:
    """A dialogue in the cache."""

    question_id: str
    ids: list[int] = field(default_factory=list)  # tokens whose keys and values are in the pages
    pages: list[int] = field(default_factory=list)
    prompt: PreparedPrompt | None = None  # the last prompt that was read
    pinned: bool = False  # True while a turn is in progress; pinned sequences are not evicted
    last_used: int = 0  # value of the cache's use counter when the sequence was last unpinned
    states: SequenceStates = field(default_factory=SequenceStates)  # states of recurrent layers
    reuse: Reuse = "tokens"
    reused: int = sys.maxsize  # tokens of a prompt read ahead that were in the cache before

    def mark_read(self, prompt: PreparedPrompt) -> None:
        """Record that all tokens of a prompt are in the pages."""
        self.ids, self.prompt, self.reused = list(prompt.ids), prompt, sys.maxsize
        self.states.mark_read()

    def mark_written(self, token: int) -> None:
        """Record that one more token is in the pages."""
        self.ids.append(token)
        self.states.mark_written()

    def slots(self, start: int, end: int) -> np.ndarray:
        """Return the slots of the tokens from `start` to `end` (exclusive), (tokens,) int64."""
        indices = np.arange(start, end)
        return np.asarray(self.pages)[indices // PAGE_TOKENS] * PAGE_TOKENS + indices % PAGE_TOKENS

    def cached_tokens(self, prompt: PreparedPrompt) -> int:
        """Return the length of a prompt's prefix that can be reused: never the whole prompt or part of an image.

        With recurrent layers, it is limited to tokens with a stored state.
        """
        if self.reuse == "none":
            return 0
        tokens = self._cached_keys(prompt)
        if self.reuse == "blocks":
            return common_blocks(self.prompt, prompt, tokens)
        return self.states.cached_tokens(tokens) if self.states.slots else tokens

    def _cached_keys(self, prompt: PreparedPrompt) -> int:
        tokens = common_tokens(self.ids, prompt.ids[:-1])
        cached_images = self.prompt.images if self.prompt is not None else ()
        for index, image in enumerate(prompt.images):
            is_cached = (
                index < len(cached_images)
                and cached_images[index].values == image.values
                and cached_images[index].start == image.start
                and tokens >= image.start + image.tokens
            )
            if not is_cached:
                return min(tokens, image.start)
        return tokens


class KVCache:
    """Pages of keys and values for many dialogues. Idle dialogues are evicted if there are too few pages."""

    def __init__(
        self,
        budget: int,  # size of all pages in bytes
        grows: bool,  # allocate pages when needed, as on a CPU; one dialogue can then exceed the budget
    ) -> None:
        self.budget = budget
        self.grows = grows
        self.layers: dict[int, LayerPages] = {}
        self.states: StatePool | None = None
        self.has_windows = False
        self.reuse: Reuse = "tokens"
        self.uses_kernels = True  # False if the start check found the GPU kernels to be wrong
        self.bytes_per_token = 0
        self.sequences: list[CachedSequence] = []
        self.evicted = 0
        self._prefix: CachedSequence | None = None
        self._free: list[int] = []
        self._references: list[int] = []
        self._use_counter = 0

    @property
    def fits_kernels(self) -> bool:
        """True if GPU kernels are used for all layers: keys as wide as values, no windows, no recurrent layers."""
        widths = {(p.keys.shape[-1], p.values.shape[-1]) for p in self.layers.values()}
        # The kernels need widths that are powers of two.
        fit = all(key == value <= 256 and not key & (key - 1) for key, value in widths)
        return self.uses_kernels and fit and self.states is None and not self.has_windows

    @property
    def page_bytes(self) -> int:
        """Size of one page of all layers in bytes."""
        return PAGE_TOKENS * self.bytes_per_token

    @property
    def bytes(self) -> int:
        """Size of all allocated pages and states in bytes."""
        return len(self._references) * self.page_bytes + self.state_bytes

    @property
    def state_bytes(self) -> int:
        """Size of all allocated states in bytes."""
        return self.states.bytes if self.states is not None else 0

    @property
    def bytes_per_dialogue(self) -> int:
        """Size of a dialogue's states in bytes while its reply is generated."""
        return self.states.bytes_per_sequence if self.states is not None else 0

    @property
    def page_limit(self) -> int:
        """Number of pages within the budget, including the scratch page."""
        return max(2, (self.budget - self.state_bytes) // max(1, self.page_bytes))

    @property
    def num_pinned(self) -> int:
        """Number of dialogues whose turn is in progress."""
        return sum(sequence.pinned for sequence in self.sequences)

    @property
    def idle(self) -> list[CachedSequence]:
        """The dialogues between two turns."""
        return [sequence for sequence in self.sequences if not sequence.pinned]

    def allocate(
        self,
        shapes: Mapping[int, tuple[torch.Tensor, torch.Tensor]],
        states: StatePool | None = None,
    ) -> None:
        """Lay out the pages of all layers, given the keys and values of one token by layer, (1, heads, width) each.

        Layers with the same keys share their pages. Raises any error of the allocator.
        """
        self.states = states
        by_pointer: dict[int, LayerPages] = {}
        for layer, (keys, values) in sorted(shapes.items()):
            if keys.data_ptr() not in by_pointer:
                by_pointer[keys.data_ptr()] = LayerPages(_empty(keys, 0), _empty(values, 0))
                for part in (keys, values):
                    self.bytes_per_token += part[0].numel() * part.element_size()
            self.layers[layer] = by_pointer[keys.data_ptr()]
        self._grow_to(2 if self.grows else self.page_limit)

    def find_idle(self, question_id: str) -> CachedSequence | None:
        """Return the idle dialogue of a question, or None if it is not in the cache."""
        return next((s for s in self.idle if s.question_id == question_id), None)

    def has_read(self, prompt: PreparedPrompt) -> bool:
        """True if a dialogue contains all tokens of this prompt object."""
        return any(s.prompt is prompt and len(s.ids) >= len(prompt.ids) for s in self.sequences)

    def add(
        self, question_id: str, prompt: PreparedPrompt, parent: str | None = None
    ) -> CachedSequence:
        """Add a dialogue that shares the longest common prefix with another one, such as the `parent` it branches off
        from.

        Another sample of the same prompt shares all of it.
        """
        new = CachedSequence(question_id, reuse=self.reuse)
        self.sequences.append(new)
        recent = sorted(self.sequences[:-1], key=lambda s: -s.last_used)[:SHARING_CANDIDATES]
        sources = [s for s in self.sequences[:-1] if s.prompt is prompt][:1] or [
            *recent,
            *(s for s in self.sequences[:-1] if s.question_id == parent),
            *([self._prefix] if self._prefix else []),
        ]
        source = max(sources, key=lambda s: s.cached_tokens(prompt), default=None)
        tokens = source.cached_tokens(prompt) if source else 0
        if (
            source is not None
            and tokens >= MIN_SHARED_TOKENS
            and self._share_state(source, new, tokens)
        ):
            self._share(source, new, tokens)
            new.prompt = source.prompt
        return new

    def keep_prefix(self, sequence: CachedSequence) -> None:
        """Keep the prefix of a dialogue, up to its first image, even after the dialogue is evicted."""
        prompt = sequence.prompt
        if self.needs_prefix and prompt is not None:
            prefix = CachedSequence("", pinned=True, reuse=self.reuse)
            end = prompt.images[0].start if prompt.images else len(prompt.ids)
            self._share(sequence, prefix, end)
            prefix.prompt = prompt if self.reuse == "blocks" else None
            self._prefix = prefix

    def drop_prefix(self) -> None:
        """Release the kept prefix."""
        if self._prefix is not None:
            self._release(self._prefix.pages)
            self._prefix = None

    @property
    def needs_prefix(self) -> bool:
        """True if `keep_prefix` will keep the prefix of the next dialogue."""
        return self._prefix is None and self.states is None and self.reuse != "none"

    def common_prefix(self, prompts: Mapping[str, PreparedPrompt]) -> PreparedPrompt | None:
        """Return the common prefix of the next prompts by question id and of dialogues in the cache, up to the first
        image.

        For models with recurrent states, which are stored only at the end of a read. None if the prefix is too short, if
        there is only one dialogue, or if a prefix is already kept.
        """
        if self.states is None or self._prefix is not None or self.reuse == "none":
            return None
        next_prompts = prompts.values()
        read = {
            s.question_id: s.prompt
            for s in self.sequences
            if s.prompt and s.prompt not in next_prompts
        }
        candidates = [*{**read, **prompts}.values()][:SHARING_CANDIDATES]
        if len(candidates) < 2:
            return None
        first, *others = candidates
        ends = [common_tokens(first.ids, other.ids) for other in others]
        end = min([*ends, *(image.start for image in first.images[:1])])
        if end < MIN_SHARED_TOKENS:
            return None
        return PreparedPrompt("", ids=first.ids[:end], stable_tokens=end, is_stable=True)

    def set_prefix(self, prefix: CachedSequence) -> None:
        """Keep a sequence as the prefix of others; an empty one disables further attempts to read a prefix."""
        if prefix in self.sequences:
            self.unpin(prefix)
            self.sequences.remove(prefix)
        self._prefix = prefix

    def reserve(
        self, sequence: CachedSequence, start: int, tokens: int, evicts: bool = True
    ) -> bool:
        """Reserve pages for all tokens of a dialogue, to write those from `start` on; return False if there are too few
        now.

        With `evicts`, idle dialogues are evicted if necessary, most recently used first: dialogues take turns in a fixed
        order, so the least recently used one is needed next. Raises MemoryError if the dialogue does not fit in an empty
        cache, and any error of the allocator.
        """
        num_pages = -(-tokens // PAGE_TOKENS)
        if not self._reserve_states(sequence, evicts):
            return False
        if self.grows and self._make_contiguous(sequence, start, num_pages):
            return True
        first = start // PAGE_TOKENS
        shared = [
            i for i in range(first, len(sequence.pages)) if self._references[sequence.pages[i]] > 1
        ]
        missing = len(shared) + max(0, num_pages - len(sequence.pages))
        if not self._make_room(missing, sequence, evicts):
            return False
        for index in shared:
            old, new = sequence.pages[index], self._take()
            if index == first and start % PAGE_TOKENS:
                self._copy(old, new, start % PAGE_TOKENS)
            sequence.pages[index] = new
            self._release([old])
        sequence.pages += [self._take() for _ in range(num_pages - len(sequence.pages))]
        return True

    def unpin(self, sequence: CachedSequence) -> None:
        """Mark a dialogue as idle until its next turn, and release its unused pages."""
        self._use_counter += 1
        sequence.last_used, sequence.pinned = self._use_counter, False
        if self.states is not None:
            prompt = sequence.prompt
            self.states.trim(sequence.states, keeps_reply=prompt is not None and prompt.is_stable)
        num_pages = -(-len(sequence.ids) // PAGE_TOKENS)
        self._release(sequence.pages[num_pages:])
        del sequence.pages[num_pages:]

    def evict(self, sequence: CachedSequence) -> None:
        """Remove a dialogue and release its pages."""
        self.sequences.remove(sequence)
        if self.states is not None:
            self.states.release(sequence.states)
        self._release(sequence.pages)
        sequence.pages, sequence.ids = [], []

    def evict_idle(self) -> None:
        for sequence in self.idle:
            self.evict(sequence)
            self.evicted += 1

    def close(self) -> None:
        self.__init__(0, self.grows)  # type: ignore[misc]  # reset to an empty cache

    def _share(self, source: CachedSequence, target: CachedSequence, tokens: int) -> None:
        """Share the first pages of a dialogue with another one; shared pages are copied before writing."""
        target.pages = source.pages[: -(-tokens // PAGE_TOKENS)]
        target.ids = source.ids[:tokens]
        for page in target.pages:
            self._references[page] += 1

    def _share_state(self, source: CachedSequence, target: CachedSequence, tokens: int) -> bool:
        """Copy the recurrent state after this many tokens; return False if there is no room for it."""
        if self.states is None:
            return True
        if not self.states.reserve(target.states, self.budget - self.bytes if self.grows else 0):
            return False
        self.states.copy(source.states, target.states, tokens)
        return True

    def _reserve_states(self, sequence: CachedSequence, evicts: bool) -> bool:
        """Reserve the state slots of a dialogue, evicting others like `reserve` does for pages."""
        while self.states is not None and not self.states.reserve(
            sequence.states, self.budget - self.bytes if self.grows else 0
        ):
            if evicts and self._evict_one(sequence):
                continue
            if all(other is sequence for other in self.sequences):
                if not self.grows:
                    raise MemoryError("out of memory: no room in the cache for recurrent states")
                self.states.grow()
            else:
                return False
        return True

    def _make_room(self, missing: int, sequence: CachedSequence, evicts: bool) -> bool:
        """Make this many free pages available to a sequence; return False if that is impossible now."""
        while missing > len(self._free):
            allocated = len(self._references)
            is_only = all(other is sequence for other in self.sequences)
            needed = allocated + missing - len(self._free)
            if self.grows and (needed <= self.page_limit or is_only):
                # Grow by half at least, because growing copies all pages.
                self._grow_to(max(needed, min(self.page_limit, allocated + allocated // 2)))
                continue
            if evicts and self._evict_one(sequence):
                continue
            if is_only:
                raise MemoryError(f"out of memory: the cache is {missing} pages too small")
            return False
        return True

    def _evict_one(self, sequence: CachedSequence) -> bool:
        """Evict the most recently used idle dialogue other than `sequence`; return False if there is none."""
        idle = [other for other in self.idle if other is not sequence]
        if idle:
            self.evict(max(idle, key=lambda other: other.last_used))
            self.evicted += 1
        return bool(idle)

    def _make_contiguous(self, sequence: CachedSequence, start: int, num_pages: int) -> bool:
        """Move a dialogue to consecutive pages, which can be read without a copy; return False if impossible."""
        old = sequence.pages
        is_unshared = all(self._references[page] == 1 for page in old)
        if is_unshared and len(old) >= num_pages and old == [*range(old[0], old[0] + len(old))]:
            return True
        allocated = len(self._references)
        run = self._contiguous_free(num_pages)
        if run is None and allocated + num_pages <= self.page_limit:
            larger = min(self.page_limit, allocated + allocated // 2)
            self._grow_to(max(allocated + num_pages, larger))
            run = self._contiguous_free(num_pages)
        if run is None:
            return False
        self._free = [page for page in self._free if page not in run]
        for page in run:
            self._references[page] = 1
        for index, page in enumerate(old[: -(-start // PAGE_TOKENS)]):
            self._copy(page, run[index], min(PAGE_TOKENS, start - index * PAGE_TOKENS))
        self._release(old)
        sequence.pages = [*run]
        return True

    def _contiguous_free(self, count: int) -> range | None:
        """Return this many consecutive free pages, or None."""
        first = previous = -1
        for page in sorted(self._free):
            if page != previous + 1:
                first = page
            if page - first + 1 == count:
                return range(first, page + 1)
            previous = page
        return None

    def _grow_to(self, pages: int) -> None:
        """Reallocate every layer with this many pages, one after the other; on failure, the cache is unchanged."""
        allocated = len(self._references)
        with torch.inference_mode():
            for layer in self.layers.values():
                for name in ("keys", "values"):
                    old = getattr(layer, name)
                    if len(old) < pages:
                        new = _empty(old, pages)
                        new[:allocated] = old[:allocated]
                        setattr(layer, name, new)
        if not allocated:
            self._references, allocated = [1], SCRATCH_PAGE + 1
        self._free = [*range(pages - 1, allocated - 1, -1), *self._free]
        self._references += [0] * (pages - allocated)

    def _take(self) -> int:
        page = self._free.pop()
        self._references[page] = 1
        return page

    def _release(self, pages: Sequence[int]) -> None:
        for page in reversed(pages):
            self._references[page] -= 1
            if not self._references[page]:
                self._free.append(page)

    def _copy(self, source: int, target: int, tokens: int) -> None:
        with torch.inference_mode():
            for layer in self.layers.values():
                for part in (layer.keys, layer.values):
                    part[target, :tokens] = part[source, :tokens]


def _empty(like: torch.Tensor, pages: int) -> torch.Tensor:
    """Return an uninitialized tensor (pages, PAGE_TOKENS, heads, width) with the heads and width of `like`.

    GPU kernels need the heads of a token to be contiguous in memory; on a CPU it is faster if the tokens of a head are.
    """
    heads, width = like.shape[-2:]
    if like.is_cuda:
        return like.new_empty((pages, PAGE_TOKENS, heads, width))
    return like.new_empty((heads, pages, PAGE_TOKENS, width)).permute(1, 2, 0, 3)
