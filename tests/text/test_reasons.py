"""The words of an error are one line, of bounded length."""

import pytest

from render_agent.text.reasons import LONGEST_REASON, first_line, reason_of


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
