"""Pages are shared where dialogues begin alike, never written by two, and given back when nobody has them."""

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


def written(cache, name, ids):
    """Begin a dialogue with these tokens, writing what it does not share; return it and what was shared."""
    prompt = PreparedPrompt("", ids=tuple(ids))
    sequence = cache.begin(name, prompt)
    sequence.pinned, start = True, len(sequence.ids)
    assert cache.reserve(sequence, start, len(ids))
    write(cache, sequence, start, ids)
    sequence.prompt = prompt
    return sequence, start


def write(cache, sequence, start, ids):
    """Write tokens from a place on; a token's keys are its number, its values the same below zero."""
    slots = torch.from_numpy(sequence.slots(start, len(ids)))
    with torch.inference_mode():
        for layer in cache.layers.values():
            keys, values = layer.flat
            new = torch.tensor(ids[start:], dtype=torch.float32)[:, None, None]
            keys[slots], values[slots] = new, -new
    sequence.ids = list(ids)


def stands(cache, sequence):
    """Whether every token stands where its dialogue says, in all layers."""
    slots = torch.from_numpy(sequence.slots(0, len(sequence.ids)))
    ids = torch.tensor(sequence.ids, dtype=torch.float32)
    return all(
        bool((part[slots].mean((1, 2)) == sign * ids).all())
        for layer in cache.layers.values()
        for part, sign in zip(layer.flat, (1, -1), strict=True)
    )


def test_what_begins_alike_is_shared_and_nothing_is_written_over(cache):
    long = list(range(1, 701))
    first, shared = written(cache, "a", long)
    assert shared == 0
    second, shared = written(cache, "b", [*long[:600], *range(900, 1000)])
    assert shared == 600
    third, shared = written(cache, "c", long)
    assert shared == 699, "the last token is always read"
    assert all(stands(cache, one) for one in (first, second, third))
    cache.reserve(first, 100, 800)
    write(cache, first, 100, [*long[:100], *range(5000, 5700)])
    assert all(stands(cache, one) for one in (first, second, third))
    for one in (first, second, third):
        cache.evict(one)
    assert not any(cache._references[1:])


def test_a_kept_beginning_outlives_its_dialogue(cache):
    first, _ = written(cache, "a", list(range(1, 301)))
    cache.keep_prefix(first)
    cache.evict(first)
    other, shared = written(cache, "b", [*range(1, 301), 7, 8])
    assert shared == 300
    assert stands(cache, other)


def test_idle_dialogues_make_room_and_those_under_way_do_not(cache):
    one, _ = written(cache, "a", list(range(1, 10 * PAGE_TOKENS)))
    two, _ = written(cache, "b", list(range(9000, 9000 + 8 * PAGE_TOKENS)))
    new = cache.begin("c", PreparedPrompt("", ids=(1, 2)))
    assert not cache.reserve(new, 0, 5 * PAGE_TOKENS)
    cache.rest(one)
    assert not cache.reserve(new, 0, 5 * PAGE_TOKENS, evicts=False)
    assert cache.reserve(new, 0, 5 * PAGE_TOKENS)
    assert (cache.evicted, cache.of("a")) == (1, None)
    assert stands(cache, two)


def test_a_dialogue_that_grows_stands_side_by_side_where_memory_grows(cache):
    one, _ = written(cache, "a", list(range(1, 301)))
    two, _ = written(cache, "b", list(range(5000, 5301)))
    for length in (600, 1200):
        for sequence in (one, two):
            ids = [sequence.ids[0] + n for n in range(length)]
            assert cache.reserve(sequence, len(sequence.ids), length)
            write(cache, sequence, len(sequence.ids), ids)
    assert stands(cache, one)
    assert stands(cache, two)
    if cache.grows:
        for sequence in (one, two):
            first = sequence.pages[0]
            assert sequence.pages == [*range(first, first + len(sequence.pages))]


def test_a_dialogue_alone_may_outgrow_a_cache_that_grows_and_no_other(cache):
    one = cache.begin("a", PreparedPrompt("", ids=(1,)))
    if cache.grows:
        assert cache.reserve(one, 0, 30 * PAGE_TOKENS)
    else:
        with pytest.raises(MemoryError):
            cache.reserve(one, 0, 30 * PAGE_TOKENS)


def test_common_tokens_are_counted_from_the_beginning():
    assert common_tokens([], [1]) == 0
    assert common_tokens([1, 2, 3], [1, 2, 4, 5]) == 2
    many = list(range(1000))
    assert common_tokens(many, many) == 1000
    assert common_tokens(many, [*many[:700], 0]) == 700
