"""Token counts: their names in the log, and their sums."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from render_agent.dialogue.tokens import Tokens, reported_total

COUNTS = st.builds(Tokens, *[st.integers(0, 10**9)] * 5)


def test_old_counts_can_be_read():
    old = b'{"in": 7, "out": 3, "from_cache": 2, "thought": 1}'
    assert msgspec.json.decode(old, type=Tokens) == Tokens(7, 3, 2, 1)
    assert msgspec.json.decode(b"{}", type=Tokens) == Tokens()


@given(COUNTS)
def test_counts_round_trip_through_the_log(tokens):
    stored = msgspec.to_builtins(tokens)
    assert list(stored) == ["in", "out", "from_cache", "thought", "to_cache"]
    assert msgspec.convert(stored, Tokens) == tokens


@given(st.lists(COUNTS), st.lists(COUNTS))
def test_total_does_not_depend_on_grouping(first, second):
    whole = Tokens.total([*first, *second])
    assert whole == Tokens.total([Tokens.total(first), Tokens.total(second)])
    assert reported_total(first) == (
        msgspec.to_builtins(Tokens.total(first))
        if not first or any(count.prompt for count in first)
        else dict.fromkeys(msgspec.to_builtins(Tokens()))
    )
