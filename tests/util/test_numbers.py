"""Numbers and quantities in model replies."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as some

from render_agent.util.numbers import (
    ANGLES,
    SMALL_NUMBERS,
    UNITS,
    parse_only_number,
    parse_quantity,
)


@pytest.mark.parametrize(("word", "number"), SMALL_NUMBERS.items())
def test_words_up_to_twenty_are_numbers(word, number):
    assert parse_quantity(f"{word.title()} metres", UNITS) == number
    assert parse_only_number(f"About {word} chairs.") == str(number)


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


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("2", "2"), ("2.0", "2"), ("+2", "2"), ("-2", "-2"), ("−2", "-2"), (".5", "0.5"), ("5.", "5"),
        ("about 3 chairs", "3"), ("There are 3.", "3"), ("**3**", "3"), ("3 (three)", "3"),
        ("1,234", "1234"), ("1,234,567.5 m", "1234567.5"), ("1.5e3", "1500"), ("16.2 m²", "16.2"),
        ("16.2 m2", "16.2"), ("16.2 m^2", "16.2"), ("~4.25", "4.25"), ("0.1", "0.1"), ("007", "7"),
        ("3, with the one behind the sofa", "3"), ("3 chairs, half hidden", "3"), ("50 cm", "50"),
    ],
)  # fmt: skip
def test_texts_with_one_number(text, number):
    assert parse_only_number(text) == number


@pytest.mark.parametrize(
    "text",
    ["", "none", "no chairs", "3 or 4", "3-4", "3–4", "between two and three", "3 or four", "1,5",
     "two-seater", "the twenty-first", "2x3", "4 by 5 m", "nan", "infinity", "1e999", "9" * 400, "A", "٣",
     "twenty-one", "two hundred", "two and a half", "minus two", "one point five", "forty"],
)  # fmt: skip
def test_texts_with_no_or_several_numbers(text):
    assert parse_only_number(text) is None


@given(some.floats(allow_nan=False, allow_infinity=False, width=32))
def test_numbers_round_trip_through_text(number):
    assert float(parse_only_number(f"it is {number!r}, I think")) == number
    assert parse_quantity(repr(number), UNITS) == number


@given(some.text())
def test_arbitrary_text_never_raises(text):
    value, number = parse_quantity(text, UNITS), parse_only_number(text)
    assert value is None or math.isfinite(value)
    assert number is None or parse_only_number(number) == number
