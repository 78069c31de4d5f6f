"""Numbers and names as a sentence has them."""

import pytest

from render_agent.util.display import counted, listed


@pytest.mark.parametrize(
    ("number", "words"), [(0, "0 turns"), (1, "1 turn"), (1200, "1,200 turns")]
)
def test_a_number_of_things_has_its_noun(number, words):
    assert counted(number, "turn") == words


def test_a_noun_may_have_its_own_plural():
    assert [counted(number, "reply", "replies") for number in (1, 2)] == ["1 reply", "2 replies"]


@pytest.mark.parametrize(
    ("names", "words"),
    [((), ""), (("a",), "a"), (("a", "b"), "a and b"), (("a", "b", "c"), "a, b and c")],
)
def test_names_are_listed(names, words):
    assert listed(names) == words
