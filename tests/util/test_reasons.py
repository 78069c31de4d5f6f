"""Errors and values are formatted as one line of bounded length."""

import pytest

from render_agent.util.reasons import (
    MAX_REASON_CHARS,
    MAX_VALUE_CHARS,
    first_line,
    reason_of,
    short_repr,
    truncate,
)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("a word\n  and\tanother "), "a word and another"),
        (ValueError(""), "ValueError"),
        ("said", "said"),
        (PermissionError(13, "Permission denied", "a.json"), "Permission denied"),
        (OSError("without strerror"), "without strerror"),
        (ValueError("x" * (MAX_REASON_CHARS + 1)), "x" * MAX_REASON_CHARS + "…"),
    ],
)
def test_reason_of_returns_one_line(error, reason):
    assert reason_of(error) == reason


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("first.\nsecond"), "ValueError: first"),
        (KeyError(), "KeyError"),
        (RuntimeError("\n  first:  \n"), "RuntimeError: first"),
    ],
)
def test_first_line_starts_with_the_class_name(error, line):
    assert first_line(error) == line


@pytest.mark.parametrize(
    "value", ["", "a 'word'", "x" * MAX_VALUE_CHARS, 7, None, ValueError("no")]
)
def test_short_values_are_unchanged(value):
    assert truncate(value) == str(value)
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
def test_long_values_are_truncated_and_keep_their_closing_bracket(value, begins, ends):
    text = short_repr(value)
    assert (text[:MAX_VALUE_CHARS], text[MAX_VALUE_CHARS]) == (repr(value)[:MAX_VALUE_CHARS], "…")
    assert len(text) == MAX_VALUE_CHARS + 2
    assert text.startswith(begins)
    assert text.endswith(ends)


def test_maximum_length_can_be_chosen():
    assert truncate("abcdef", 3) == "abc…"
    assert short_repr("abcdef", 3) == "'ab…'"
