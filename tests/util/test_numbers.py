"""Numbers and quantities in model replies."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as some

from render_agent.util.numbers import ANGLES, SMALL_NUMBERS, UNITS, parse_quantity


@pytest.mark.parametrize(("word", "number"), SMALL_NUMBERS.items())
def test_words_up_to_twenty_are_numbers(word, number):
    assert parse_quantity(f"{word.title()} metres", UNITS) == number


@pytest.mark.parametrize(
    ("value", "degrees"),
    [
        (45, 45), (-45.5, -45.5), ("45", 45), (" +45 ", 45), ("-45°", -45), ("−45º", -45),
        ("45 deg.", 45), ("45 degrees", 45), ("Twelve Degrees", 12), ("twelve°", 12), ("4.5e1", 45),
        ("3.141592653589793 rad", 180),
    ],
)  # fmt: skip
def test_angles(value, degrees):
    assert parse_quantity(value, ANGLES) == pytest.approx(degrees, abs=1e-12)


@pytest.mark.parametrize(
    ("value", "metres"),
    [
        (0.5, 0.5), ("0.5", 0.5), (".5", 0.5), ("0.5 m", 0.5), ("0.5m.", 0.5), ("50 cm", 0.5),
        ("500mm", 0.5), ("-1 metre", -1), ("two", 2),
    ],
)  # fmt: skip
def test_lengths(value, metres):
    assert parse_quantity(value, UNITS) == pytest.approx(metres, abs=1e-12)


@pytest.mark.parametrize(
    "value",
    [None, True, False, math.nan, math.inf, -math.inf, 10**400, "1e999", "nan", "inf", "", "m", "-",
     "1,5", "1 2", "1 to 2", "0.5 furlongs", "45°", "a chair", "0x10", [1], {"x": 1}, "٣",
     "two hundred", "twenty-one", "one point five", "minus one", "twofold"],
)  # fmt: skip
def test_invalid_lengths_are_none(value):
    assert parse_quantity(value, UNITS) is None


@given(some.floats(allow_nan=False, allow_infinity=False, width=32))
def test_numbers_round_trip_through_text(number):
    assert parse_quantity(repr(number), UNITS) == number


@given(some.text())
def test_arbitrary_text_never_raises(text):
    value = parse_quantity(text, UNITS)
    assert value is None or math.isfinite(value)
