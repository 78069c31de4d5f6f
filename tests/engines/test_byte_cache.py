"""The cache of values by bytes: what is kept, and that its size equals that of its entries."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from render_agent.engines.byte_cache import ByteCache

KEYS, OWNERS = st.integers(0, 5), st.sampled_from(["a", "b", "c"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), KEYS, st.integers(0, 60), OWNERS),
        st.tuples(st.just("get"), KEYS, OWNERS),
        st.tuples(st.just("retire"), OWNERS),
    ),
    max_size=40,
)


@given(STEPS)
def test_cache_equals_a_model_of_it(steps):
    cache, sizes, owners = ByteCache(100), {}, {}
    for name, *arguments in steps:
        if name == "put":
            key, size, owner = arguments
            cache.put(key, key, size, owner)
            if key not in sizes and sum(sizes.values()) + size <= 100:
                sizes[key], owners[key] = size, {owner}
        elif name == "get":
            key, owner = arguments
            assert cache.get(key, owner) == (key if key in sizes else None)
            if key in sizes:
                owners[key].add(owner)
        else:
            cache.retire(*arguments)
            owners = {key: left for key, own in owners.items() if (left := own - {*arguments})}
            sizes = {key: sizes[key] for key in owners}
        assert (cache.bytes, len(cache)) == (sum(sizes.values()), len(sizes))


def test_value_that_does_not_fit_is_not_cached():
    cache = ByteCache(100)
    cache.put("small", 1, 60, "a")
    cache.put("large", 2, 41, "a")
    assert (cache.get("small", "b"), cache.get("large", "b")) == (1, None)
    cache.retire("a")
    assert cache.get("small", "b") == 1, "b still uses it"
    cache.retire("b")
    cache.put("large", 2, 100, "c")
    assert cache.get("large", "c") == 2
