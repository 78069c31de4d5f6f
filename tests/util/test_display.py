"""Numbers and names formatted for sentences."""

import pytest

from render_agent.util.display import count_noun, join_names


@pytest.mark.parametrize(("number", "text"), [(0, "0 turns"), (1, "1 turn"), (1200, "1,200 turns")])
def test_counted_chooses_singular_or_plural(number, text):
    assert count_noun(number, "turn") == text


def test_counted_accepts_an_irregular_plural():
    assert [count_noun(number, "reply", "replies") for number in (1, 2)] == ["1 reply", "2 replies"]


@pytest.mark.parametrize(
    ("names", "text"),
    [((), ""), (("a",), "a"), (("a", "b"), "a and b"), (("a", "b", "c"), "a, b and c")],
)
def test_listed_joins_names(names, text):
    assert join_names(names) == text
