"""Pages are shared by dialogues with a common prefix, copied before writing, and released when unused."""

import pytest
import torch

from render_agent.engines.transformers.kv_cache import PAGE_TOKENS, KVCache, common_tokens
from render_agent.engines.transformers.model.inputs import PreparedPrompt

LAYERS, HEADS, WIDTH = 2, 2, 4


@pytest.fixture(params=[True, False], ids=["grows", "fixed"])
def cache(request):
    keys = {n: (torch.zeros(1, HEADS, WIDTH), torch.zeros(1, HEADS, WIDTH)) for n in range(LAYERS)}
    cache = KVCache(20 * PAGE_TOKENS * LAYERS * 2 * HEADS * WIDTH * 4, request.param)
    cache.allocate(keys)
    return cache


def add_dialogue(cache, name, ids):
    """Add a dialogue with these tokens; return it and the number of shared tokens."""
    prompt = PreparedPrompt("", ids=tuple(ids))
    sequence = cache.add(name, prompt)
    sequence.pinned, start = True, len(sequence.ids)
    assert cache.reserve(sequence, start, len(ids))
    write(cache, sequence, start, ids)
    sequence.prompt = prompt
    return sequence, start


def write(cache, sequence, start, ids):
    """Write tokens from index `start` on; keys are the token id, values its negative."""
    slots = torch.from_numpy(sequence.slots(start, len(ids)))
    with torch.inference_mode():
        for layer in cache.layers.values():
            keys, values = layer.flat
            new = torch.tensor(ids[start:], dtype=torch.float32)[:, None, None]
            keys[slots], values[slots] = new, -new
    sequence.ids = list(ids)


def is_intact(cache, sequence):
    """True if the keys and values of all tokens of a dialogue are correct in all layers."""
    slots = torch.from_numpy(sequence.slots(0, len(sequence.ids)))
    ids = torch.tensor(sequence.ids, dtype=torch.float32)
    return all(
        bool((part[slots].mean((1, 2)) == sign * ids).all())
        for layer in cache.layers.values()
        for part, sign in zip(layer.flat, (1, -1), strict=True)
    )


def test_common_prefixes_are_shared_and_never_overwritten(cache):
    long = list(range(1, 701))
    first, shared = add_dialogue(cache, "a", long)
    assert shared == 0
    second, shared = add_dialogue(cache, "b", [*long[:600], *range(900, 1000)])
    assert shared == 600
    third, shared = add_dialogue(cache, "c", long)
    assert shared == 699, "the last token is always computed"
    assert all(is_intact(cache, sequence) for sequence in (first, second, third))
    cache.reserve(first, 100, 800)
    write(cache, first, 100, [*long[:100], *range(5000, 5700)])
    assert all(is_intact(cache, sequence) for sequence in (first, second, third))
    for sequence in (first, second, third):
        cache.evict(sequence)
    assert not any(cache._references[1:])


def test_kept_prefix_outlives_its_dialogue(cache):
    first, _ = add_dialogue(cache, "a", list(range(1, 301)))
    cache.keep_prefix(first)
    cache.evict(first)
    other, shared = add_dialogue(cache, "b", [*range(1, 301), 7, 8])
    assert shared == 300
    assert is_intact(cache, other)


def test_only_idle_dialogues_are_evicted(cache):
    first, _ = add_dialogue(cache, "a", list(range(1, 10 * PAGE_TOKENS)))
    second, _ = add_dialogue(cache, "b", list(range(9000, 9000 + 8 * PAGE_TOKENS)))
    new = cache.add("c", PreparedPrompt("", ids=(1, 2)))
    assert not cache.reserve(new, 0, 5 * PAGE_TOKENS)
    cache.unpin(first)
    assert not cache.reserve(new, 0, 5 * PAGE_TOKENS, evicts=False)
    assert cache.reserve(new, 0, 5 * PAGE_TOKENS)
    assert (cache.evicted, cache.find_idle("a")) == (1, None)
    assert is_intact(cache, second)


def test_growing_dialogue_stays_contiguous_in_a_growing_cache(cache):
    sequences = [
        add_dialogue(cache, "a", list(range(1, 301)))[0],
        add_dialogue(cache, "b", list(range(5000, 5301)))[0],
    ]
    for length in (600, 1200):
        for sequence in sequences:
            ids = [sequence.ids[0] + n for n in range(length)]
            assert cache.reserve(sequence, len(sequence.ids), length)
            write(cache, sequence, len(sequence.ids), ids)
    assert all(is_intact(cache, sequence) for sequence in sequences)
    if cache.grows:
        for sequence in sequences:
            first = sequence.pages[0]
            assert sequence.pages == [*range(first, first + len(sequence.pages))]


def test_single_dialogue_can_exceed_only_a_growing_cache(cache):
    sequence = cache.add("a", PreparedPrompt("", ids=(1,)))
    if cache.grows:
        assert cache.reserve(sequence, 0, 30 * PAGE_TOKENS)
    else:
        with pytest.raises(MemoryError):
            cache.reserve(sequence, 0, 30 * PAGE_TOKENS)


def test_common_tokens_is_the_length_of_the_common_prefix():
    assert common_tokens([], [1]) == 0
    assert common_tokens([1, 2, 3], [1, 2, 4, 5]) == 2
    many = list(range(1000))
    assert common_tokens(many, many) == 1000
    assert common_tokens(many, [*many[:700], 0]) == 700
