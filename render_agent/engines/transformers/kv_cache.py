"""The KV cache: keys and values of many dialogues, in pages that dialogues with a common prefix share."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Several
from dataclasses import dataclass, field

import numpy as np
import torch

from render_agent.engines.transformers.model.inputs import PreparedPrompt, common_tokens
from render_agent.engines.transformers.model.recurrent_state import SequenceStates, StatePool

PAGE_TOKENS = 256
"""Tokens of a page."""

MIN_SHARED_TOKENS = 16
"""Tokens that must be alike before they are shared rather than read."""

SHARING_CANDIDATES = 8
"""Of the other dialogues, how many, the newest first, are looked at for a common beginning."""

SCRATCH_PAGE = 0
"""The page that rows which only fill up a batch write to; nobody reads it."""


@dataclass(eq=False)
class LayerPages:
    """One layer's keys and values, each (pages, PAGE_TOKENS, heads, width); their widths may differ."""

    keys: torch.Tensor
    values: torch.Tensor

    @property
    def flat(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The same by slot, each (pages × PAGE_TOKENS, heads, width)."""
        return self.keys.flatten(0, 1), self.values.flatten(0, 1)


@dataclass(eq=False)
class Sequence:
    """A dialogue in the cache: the tokens whose keys and values stand in its pages.

    prompt: the last that was read. pinned: whether it is being placed, read or written, so that it is
    not evicted. last_used: counted up with every rest. states: what layers without keys carry from its tokens on.
    """

    question_id: str
    ids: list[int] = field(default_factory=list)
    pages: list[int] = field(default_factory=list)
    prompt: PreparedPrompt | None = None
    pinned: bool = False
    last_used: int = 0
    states: SequenceStates = field(default_factory=SequenceStates)

    def mark_read(self, prompt: PreparedPrompt) -> None:
        """Note that all of a prompt stands in the pages."""
        self.ids, self.prompt = list(prompt.ids), prompt
        self.states.mark_read()

    def mark_written(self, token: int) -> None:
        """Note one token more."""
        self.ids.append(token)
        self.states.mark_written()

    def slots(self, start: int, end: int) -> np.ndarray:
        """Return where the tokens from `start` to before `end` stand among all slots, (tokens,) int64."""
        places = np.arange(start, end)
        return np.asarray(self.pages)[places // PAGE_TOKENS] * PAGE_TOKENS + places % PAGE_TOKENS

    def cached_tokens(self, prompt: PreparedPrompt) -> int:
        """Return how many of a prompt's tokens need not be read again: never all, never half a picture.

        Of a model with recurrent layers, those behind which a state was kept.
        """
        known = self._cached_keys(prompt)
        return self.states.cached_tokens(known) if self.states.slots else known

    def _cached_keys(self, prompt: PreparedPrompt) -> int:
        known = common_tokens(self.ids, prompt.ids[:-1])
        before = self.prompt.shown if self.prompt is not None else ()
        for index, picture in enumerate(prompt.shown):
            same = (
                index < len(before)
                and before[index].values == picture.values
                and before[index].start == picture.start
                and known >= picture.start + picture.tokens
            )
            if not same:
                return min(known, picture.start)
        return known


class KVCache:
    """Pages of keys and values, handed out to dialogues; idle dialogues are evicted where there are too few.

    budget: bytes of all pages. grows: whether memory is taken page by page as it is needed, as on a
    processor, rather than all at once. One dialogue alone may then have more than the budget.
    """

    def __init__(self, budget: int, grows: bool) -> None:
        self.budget = budget
        self.grows = grows
        self.layers: dict[int, LayerPages] = {}
        self.states: StatePool | None = None
        self.has_windows = False
        self.bytes_per_token = 0
        self.sequences: list[Sequence] = []
        self.evicted = 0
        self._prefix: Sequence | None = None
        self._free: list[int] = []
        self._references: list[int] = []
        self._rests = 0

    @property
    def is_plain(self) -> bool:
        """Whether the kernels of a GPU know all its layers: of keys as wide as values, each token seeing all."""
        widths = {(p.keys.shape[-1], p.values.shape[-1]) for p in self.layers.values()}
        same = all(one == other <= 256 and not one & (one - 1) for one, other in widths)
        return same and self.states is None and not self.has_windows

    @property
    def page_bytes(self) -> int:
        """Bytes of one page in all layers."""
        return PAGE_TOKENS * self.bytes_per_token

    @property
    def bytes(self) -> int:
        """What all pages and states take, used or not."""
        return len(self._references) * self.page_bytes + self.state_bytes

    @property
    def state_bytes(self) -> int:
        """What all states take, used or not."""
        return self.states.bytes if self.states is not None else 0

    @property
    def bytes_per_dialogue(self) -> int:
        """What a dialogue takes beside its tokens: its states while a reply is written."""
        return self.states.bytes_per_sequence if self.states is not None else 0

    @property
    def page_limit(self) -> int:
        """How many pages the budget allows, the scratch page among them."""
        return max(2, (self.budget - self.state_bytes) // max(1, self.page_bytes))

    @property
    def under_way(self) -> int:
        """How many dialogues are being placed, read or written."""
        return sum(sequence.pinned for sequence in self.sequences)

    @property
    def evictable(self) -> list[Sequence]:
        """The dialogues that wait for their next turn."""
        return [sequence for sequence in self.sequences if not sequence.pinned]

    def allocate(
        self,
        shapes: Mapping[int, tuple[torch.Tensor, torch.Tensor]],
        states: StatePool | None = None,
    ) -> None:
        """Lay out the pages of every layer after the keys and values of one token, each (1, heads, width).

        Layers that are handed the same keys share their pages. states: of layers without keys. Raises what the
        allocator raises.
        """
        self.states = states
        shared: dict[int, LayerPages] = {}
        for layer, (keys, values) in sorted(shapes.items()):
            if keys.data_ptr() not in shared:
                shared[keys.data_ptr()] = LayerPages(_empty(keys, 0), _empty(values, 0))
                for part in (keys, values):
                    self.bytes_per_token += part[0].numel() * part.element_size()
            self.layers[layer] = shared[keys.data_ptr()]
        self._grow_to(2 if self.grows else self.page_limit)

    def of(self, question_id: str) -> Sequence | None:
        """Return the idle dialogue of a question, if its pages are still there."""
        return next((s for s in self.evictable if s.question_id == question_id), None)

    def has_read(self, prompt: PreparedPrompt) -> bool:
        """Whether a dialogue holds all of this very prompt."""
        return any(s.prompt is prompt and len(s.ids) >= len(prompt.ids) for s in self.sequences)

    def begin(
        self, question_id: str, prompt: PreparedPrompt, parent: str | None = None
    ) -> Sequence:
        """Return a new dialogue that shares as much of another's beginning as it has in common with it.

        Another sample of the same prompt shares all of it. parent: the dialogue that it branches off, if any.
        """
        new = Sequence(question_id)
        self.sequences.append(new)
        newest = sorted(self.sequences[:-1], key=lambda s: -s.last_used)[:SHARING_CANDIDATES]
        sources = [s for s in self.sequences[:-1] if s.prompt is prompt][:1] or [
            *newest,
            *(s for s in self.sequences[:-1] if s.question_id == parent),
            *([self._prefix] if self._prefix else []),
        ]
        source = max(sources, key=lambda s: s.cached_tokens(prompt), default=None)
        alike = source.cached_tokens(prompt) if source else 0
        if (
            source is not None
            and alike >= MIN_SHARED_TOKENS
            and self._share_state(source, new, alike)
        ):
            self._share(source, new, alike)
            new.prompt = source.prompt
        return new

    def keep_prefix(self, sequence: Sequence) -> None:
        """Keep the prefix of a dialogue, up to its first picture, for others once it is evicted itself."""
        prompt = sequence.prompt
        if self.awaits_prefix and prompt is not None:
            kept = Sequence("", pinned=True)
            self._share(sequence, kept, prompt.shown[0].start if prompt.shown else len(prompt.ids))
            self._prefix = kept

    @property
    def awaits_prefix(self) -> bool:
        """Whether the first dialogue that is read will leave its prefix to the others."""
        return self._prefix is None and self.states is None

    def common_prefix(self, prompts: Mapping[str, PreparedPrompt]) -> PreparedPrompt | None:
        """Return the common prefix of several questions' prompts, up to a picture, as a prompt of its own.

        For models with recurrent states, which are kept behind chosen tokens alone. prompts: those to come, by
        question; those of other dialogues are looked at, too. None where they have too little in common, where there
        is one alone, or where a prefix is kept already.
        """
        if self.states is None or self._prefix is not None:
            return None
        coming = prompts.values()
        read = {
            s.question_id: s.prompt for s in self.sequences if s.prompt and s.prompt not in coming
        }
        candidates = [*{**read, **prompts}.values()][:SHARING_CANDIDATES]
        if len(candidates) < 2:
            return None
        first, *others = candidates
        ends = [common_tokens(first.ids, other.ids) for other in others]
        end = min([*ends, *(picture.start for picture in first.shown[:1])])
        if end < MIN_SHARED_TOKENS:
            return None
        return PreparedPrompt("", ids=first.ids[:end], kept=end, continues=True)

    def set_prefix(self, prefix: Sequence) -> None:
        """Keep a dialogue as the prefix of others; one without tokens, so that no prefix is read again."""
        if prefix in self.sequences:
            self.rest(prefix)
            self.sequences.remove(prefix)
        self._prefix = prefix

    def reserve(self, sequence: Sequence, start: int, tokens: int, evicts: bool = True) -> bool:
        """Give a dialogue pages for so many tokens, those from `start` on its own to write to.

        evicts: whether idle dialogues are evicted for it, the one used last first: questions that take turns come
        back in the order they had, so that the first ones stay to be found. False where there are too few pages now;
        MemoryError where there never will be enough. Raises what the allocator raises.
        """
        wanted = -(-tokens // PAGE_TOKENS)
        if not self._reserve_states(sequence, evicts):
            return False
        if self.grows and self._make_contiguous(sequence, start, wanted):
            return True
        first = start // PAGE_TOKENS
        shared = [
            i for i in range(first, len(sequence.pages)) if self._references[sequence.pages[i]] > 1
        ]
        missing = len(shared) + max(0, wanted - len(sequence.pages))
        if not self._make_room(missing, sequence, evicts):
            return False
        for index in shared:
            old, new = sequence.pages[index], self._take()
            if index == first and start % PAGE_TOKENS:
                self._copy(old, new, start % PAGE_TOKENS)
            sequence.pages[index] = new
            self._release([old])
        sequence.pages += [self._take() for _ in range(wanted - len(sequence.pages))]
        return True

    def rest(self, sequence: Sequence) -> None:
        """Let a dialogue wait for its next turn; pages that it does not fill are given back."""
        self._rests += 1
        sequence.last_used, sequence.pinned = self._rests, False
        if self.states is not None:
            prompt = sequence.prompt
            self.states.rest(sequence.states, keeps_reply=prompt is not None and prompt.continues)
        filled = -(-len(sequence.ids) // PAGE_TOKENS)
        self._release(sequence.pages[filled:])
        del sequence.pages[filled:]

    def evict(self, sequence: Sequence) -> None:
        """Give up a dialogue's pages."""
        self.sequences.remove(sequence)
        if self.states is not None:
            self.states.release(sequence.states)
        self._release(sequence.pages)
        sequence.pages, sequence.ids = [], []

    def evict_idle(self) -> None:
        """Give up every dialogue that waits for its next turn."""
        for sequence in self.evictable:
            self.evict(sequence)
            self.evicted += 1

    def close(self) -> None:
        """Give back the memory."""
        self.__init__(0, self.grows)  # type: ignore[misc]  # all that it holds goes

    def _share(self, source: Sequence, target: Sequence, tokens: int) -> None:
        """Let a dialogue begin with another's pages; whoever writes into one that is shared gets a copy."""
        target.pages = source.pages[: -(-tokens // PAGE_TOKENS)]
        target.ids = source.ids[:tokens]
        for page in target.pages:
            self._references[page] += 1

    def _share_state(self, source: Sequence, target: Sequence, tokens: int) -> bool:
        """Copy the state behind so many tokens, where there are any; whether there was room for it."""
        if self.states is None:
            return True
        if not self.states.reserve(target.states, self.budget - self.bytes if self.grows else 0):
            return False
        self.states.copy(source.states, target.states, tokens)
        return True

    def _reserve_states(self, sequence: Sequence, evicts: bool) -> bool:
        """Give a dialogue the states that reading and writing takes; others give way as they do for pages."""
        while self.states is not None and not self.states.reserve(
            sequence.states, self.budget - self.bytes if self.grows else 0
        ):
            if evicts and self._evict_one(sequence):
                continue
            if all(other is sequence for other in self.sequences):
                if not self.grows:
                    raise MemoryError(
                        "out of memory: the cache has no room for a dialogue's states"
                    )
                self.states.grow()
            else:
                return False
        return True

    def _make_room(self, missing: int, wanting: Sequence, evicts: bool) -> bool:
        """Free so many pages, or let there be more; whether that could be done now."""
        while missing > len(self._free):
            there = len(self._references)
            alone = all(other is wanting for other in self.sequences)
            wanted = there + missing - len(self._free)
            if self.grows and (wanted <= self.page_limit or alone):
                generous = min(self.page_limit, there + there // 2)
                self._grow_to(max(wanted, generous))
                continue
            if evicts and self._evict_one(wanting):
                continue
            if alone:
                raise MemoryError(f"out of memory: {missing} pages more than the cache has")
            return False
        return True

    def _evict_one(self, wanting: Sequence) -> bool:
        """Give up the dialogue that was used last, of those that wait, for another; whether there was one."""
        idle = [other for other in self.evictable if other is not wanting]
        if idle:
            self.evict(max(idle, key=lambda other: other.last_used))
            self.evicted += 1
        return bool(idle)

    def _make_contiguous(self, sequence: Sequence, start: int, wanted: int) -> bool:
        """Lay a dialogue into pages side by side, which are read without being copied; whether that could be done.

        Where it lies so already, with pages enough of its own, it stays.
        """
        old = sequence.pages
        alone = all(self._references[page] == 1 for page in old)
        if alone and len(old) >= wanted and old == [*range(old[0], old[0] + len(old))]:
            return True
        there = len(self._references)
        run = self._contiguous_free(wanted)
        if run is None and there + wanted <= self.page_limit:
            self._grow_to(max(there + wanted, min(self.page_limit, there + there // 2)))
            run = self._contiguous_free(wanted)
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
        """Return so many free pages side by side."""
        begin = previous = -1
        for page in sorted(self._free):
            if page != previous + 1:
                begin = page
            if page - begin + 1 == count:
                return range(begin, page + 1)
            previous = page
        return None

    def _grow_to(self, pages: int) -> None:
        """Lay every layer into tensors of so many pages, one after the other; nothing is lost if that fails."""
        there = len(self._references)
        with torch.inference_mode():
            for layer in self.layers.values():
                for name in ("keys", "values"):
                    old = getattr(layer, name)
                    if len(old) < pages:
                        new = _empty(old, pages)
                        new[:there] = old[:there]
                        setattr(layer, name, new)
        if not there:
            self._references, there = [1], SCRATCH_PAGE + 1
        self._free = [*range(pages - 1, there - 1, -1), *self._free]
        self._references += [0] * (pages - there)

    def _take(self) -> int:
        page = self._free.pop()
        self._references[page] = 1
        return page

    def _release(self, pages: Several[int]) -> None:
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
    """Return room for pages, (pages, PAGE_TOKENS, heads, width), of the heads and width of a tensor.

    A GPU's kernels want a token's heads beside each other; a processor reads a head's tokens in one go.
    """
    heads, width = like.shape[-2:]
    if like.is_cuda:
        return like.new_empty((pages, PAGE_TOKENS, heads, width))
    return like.new_empty((heads, pages, PAGE_TOKENS, width)).permute(1, 2, 0, 3)
