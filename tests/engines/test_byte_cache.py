"""The cache of values by bytes: what is evicted, and that its size equals that of its entries."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from render_agent.engines.byte_cache import ByteCache

KEYS, OWNERS = st.integers(0, 5), st.sampled_from([None, "a", "b"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), KEYS, st.integers(0, 60), OWNERS),
        st.tuples(st.just("get"), KEYS, OWNERS),
        st.tuples(st.just("own"), KEYS, OWNERS),
        st.tuples(st.just("retire"), st.sampled_from(["a", "b"])),
        st.tuples(st.just("clear")),
    ),
    max_size=40,
)


@given(STEPS)
def test_bytes_are_those_of_the_entries_and_within_the_limit(steps):
    cache, sizes = ByteCache(100), {}
    for name, *arguments in steps:
        if name == "put":
            key, size, owner = arguments
            sizes[key] = size
            cache.put(key, key, size, owner)
        else:
            getattr(cache, name)(*arguments)
        cached = [key for key in sizes if cache.own(key, None)]
        assert cache.bytes == sum(sizes[key] for key in cached) <= cache.limit
        assert len(cache) == len(cached)


def test_cleared_cache_has_room_for_all_its_bytes():
    cache = ByteCache(100)
    assert cache.put("old", 1, 100, "owner")
    assert not cache.put("new", 2, 100)
    cache.clear()
    assert (cache.bytes, len(cache), cache.get("old")) == (0, 0, None)
    assert cache.put("new", 2, 100)


def test_owned_entries_are_not_evicted_and_the_others_by_age():
    cache = ByteCache(100)
    for key, owner in (("owned", "a"), ("first", None), ("second", None)):
        assert cache.put(key, key, 30, owner)
    assert cache.get("first") == "first"  # now the more recent one
    assert cache.put("third", "third", 30)
    assert [cache.own(key, None) for key in ("owned", "first", "second", "third")] == [
        True,
        True,
        False,
        True,
    ]
    assert not cache.put("large", "large", 80)
    cache.retire("a")
    assert cache.put("large", "large", 100)
