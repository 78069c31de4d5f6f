"""The words of an error are one line, of bounded length."""

import pytest

from render_agent.util.reasons import (
    LONGEST_REASON,
    LONGEST_VALUE,
    first_line,
    reason_of,
    short_repr,
    shortened,
)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("a word\n  and\tanother "), "a word and another"),
        (ValueError(""), "ValueError"),
        ("said", "said"),
        (PermissionError(13, "Permission denied", "a.json"), "Permission denied"),
        (OSError("no words of the system"), "no words of the system"),
        (ValueError("x" * (LONGEST_REASON + 1)), "x" * LONGEST_REASON + "…"),
    ],
)
def test_the_reason_of_an_error_is_one_line(error, reason):
    assert reason_of(error) == reason


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("first.\nsecond"), "ValueError: first"),
        (KeyError(), "KeyError"),
        (RuntimeError("\n  first:  \n"), "RuntimeError: first"),
    ],
)
def test_the_first_line_of_an_error_is_told_with_its_kind(error, line):
    assert first_line(error) == line


@pytest.mark.parametrize("value", ["", "a 'word'", "x" * LONGEST_VALUE, 7, None, ValueError("no")])
def test_a_short_value_is_told_as_it_is(value):
    assert shortened(value) == str(value)
    assert short_repr(value, 90) == repr(value)


@pytest.mark.parametrize(
    ("value", "begins", "ends"),
    [
        ("x" * 1_000, "'xxx", "xxx…'"),
        ("it's " * 100, "\"it's", '…"'),
        (b"x" * 1_000, "b'xxx", "x…'"),
        (["x"] * 1_000, "['x', ", "…]"),
        ({"x" * 1_000: 1}, "{'xxx", "x…}"),
        (tuple(range(1_000)), "(0, 1", "…)"),
    ],
)
def test_the_end_of_a_long_value_shows_that_it_was_cut_and_what_closes_it(value, begins, ends):
    told = short_repr(value)
    assert (told[:LONGEST_VALUE], told[LONGEST_VALUE]) == (repr(value)[:LONGEST_VALUE], "…")
    assert len(told) == LONGEST_VALUE + 2
    assert told.startswith(begins)
    assert told.endswith(ends)


def test_as_much_of_a_long_text_is_told_as_is_asked_for():
    assert shortened("abcdef", 3) == "abc…"
    assert short_repr("abcdef", 3) == "'ab…'"
