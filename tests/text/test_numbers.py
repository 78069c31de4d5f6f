import math

import pytest
from hypothesis import given
from hypothesis import strategies as some

from render_agent.text.numbers import ANGLES, UNITS, number_from_words, only_number, quantity

ONES = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()
TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()


def spelled(number):
    """Spell a whole number below a million in English."""
    if number < 20:
        return ONES[number]
    if number < 100:
        tens, ones = divmod(number, 10)
        return TENS[tens - 2] + (f"-{ONES[ones]}" if ones else "")
    scale, word = (1000, "thousand") if number >= 1000 else (100, "hundred")
    high, low = divmod(number, scale)
    joint = " and " if scale == 100 else " "
    return f"{spelled(high)} {word}" + (joint + spelled(low) if low else "")


def test_every_spelled_number_is_read_back():
    for number in [*range(1200), 7019, 20_000, 345_678, 999_999]:
        words = spelled(number)
        assert number_from_words(words) == number
        assert number_from_words(f"minus {words.upper()}") == -number
        assert only_number(f"About {words} chairs.") == str(number)


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("one point five", 1.5),
        ("zero point two five", 0.25),
        ("minus two and a half", -2.5),
        ("half", 0.5),
        ("a dozen", 12),
        ("two dozen", 24),
        ("a hundred", 100),
        ("twenty hundred", 2000),
    ],
)
def test_other_ways_to_spell_a_number(words, value):
    assert number_from_words(words) == value


@pytest.mark.parametrize(
    "words",
    ["", "a", "and", "minus", "point five", "two point", "one two", "twenty ten", "five twenty",
     "two zero", "twenty-first", "hundred hundred", "two thousand three thousand", "chair", "7"],
)  # fmt: skip
def test_words_that_spell_no_number(words):
    assert number_from_words(words) is None


@pytest.mark.parametrize(
    ("value", "degrees"),
    [
        (45, 45), (-45.5, -45.5), ("45", 45), (" +45 ", 45), ("-45°", -45), ("−45º", -45),
        ("45 deg.", 45), ("45 degrees", 45), ("forty-five", 45), ("Forty-Five Degrees", 45),
        ("forty-five°", 45), ("minus ninety", -90), ("4.5e1", 45), ("½", 0.5), ("3.141592653589793 rad", 180),
    ],
)  # fmt: skip
def test_angles(value, degrees):
    assert quantity(value, ANGLES) == pytest.approx(degrees, abs=1e-12)


@pytest.mark.parametrize(
    ("value", "metres"),
    [
        (0.5, 0.5), ("0.5", 0.5), (".5", 0.5), ("0.5 m", 0.5), ("0.5m.", 0.5), ("50 cm", 0.5),
        ("500mm", 0.5), ("fifty centimetres", 0.5), ("half a meter", 0.5), ("-1 metre", -1),
        ("1½ m", 1.5), ("two", 2),
    ],
)  # fmt: skip
def test_lengths(value, metres):
    assert quantity(value, UNITS) == pytest.approx(metres, abs=1e-12)


@pytest.mark.parametrize(
    "value",
    [None, True, False, math.nan, math.inf, -math.inf, 10**400, "1e999", "nan", "inf", "", "m", "-",
     "1,5", "1 2", "1 to 2", "0.5 furlongs", "45°", "a chair", "0x10", [1], {"x": 1}, "٣"],
)  # fmt: skip
def test_no_lengths(value):
    assert quantity(value, UNITS) is None


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("2", "2"), ("2.0", "2"), ("+2", "2"), ("-2", "-2"), ("−2", "-2"), (".5", "0.5"), ("5.", "5"),
        ("about 3 chairs", "3"), ("There are 3.", "3"), ("**3**", "3"), ("3 (three)", "3"),
        ("twenty-one", "21"), ("Twenty one chairs", "21"), ("one", "1"), ("zero", "0"),
        ("1,234", "1234"), ("1,234,567.5 m", "1234567.5"), ("1.5e3", "1500"), ("½", "0.5"),
        ("1½", "1.5"), ("16.2 m²", "16.2"), ("16.2 m2", "16.2"), ("16.2 m^2", "16.2"),
        ("~4.25", "4.25"), ("3, with the one behind the sofa", "3"), ("two and a half", "2.5"),
        ("0.1", "0.1"), ("007", "7"), ("50 cm", "50"), ("approximately 12.75 square meters", "12.75"),
    ],
)  # fmt: skip
def test_texts_that_hold_one_number(text, number):
    assert only_number(text) == number


@pytest.mark.parametrize(
    "text",
    ["", "none", "no chairs", "3 or 4", "3-4", "3–4", "between two and three", "3 or four", "1,5",
     "two-seater", "the twenty-first", "2x3", "4 by 5 m", "nan", "infinity", "1e999", "9" * 400, "A", "٣"],
)  # fmt: skip
def test_texts_that_hold_none_or_several(text):
    assert only_number(text) is None


@given(some.floats(allow_nan=False, allow_infinity=False, width=32))
def test_every_written_number_keeps_its_value(number):
    assert float(only_number(f"it is {number!r}, I think")) == number
    assert quantity(repr(number), UNITS) == number


@given(some.text())
def test_any_text_is_read_without_an_error(text):
    value, read = quantity(text, UNITS), only_number(text)
    assert value is None or math.isfinite(value)
    assert read is None or only_number(read) == read
