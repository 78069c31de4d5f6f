"""The number that an answer states."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from render_agent.dialogue.answer import canonical_answer
from render_agent.util.numbers import SMALL_NUMBERS


def number(text, unit=None):
    return canonical_answer(text, "number", unit=unit)


@pytest.mark.parametrize(("word", "value"), SMALL_NUMBERS.items())
def test_number_words_are_numbers(word, value):
    assert number(f"{word.title()}.") == str(value)
    assert number(f"about {word} chairs") is None


@pytest.mark.parametrize(
    ("text", "value"),
    [("2", "2"), ("2.0", "2"), ("+2", "2"), ("-2", "-2"), ("−2", "-2"), (".5", "0.5"), ("5.", "5"), ("**3**", "3"),
     ("1,234", "1234"), ("1,234,567.5 m", "1234567.5"), ("1.5e3", "1500"), ("0.1", "0.1"), ("007", "7"), ("５", "5"),
     ("$2.5$", "2.5"), ("2.5\\,\\text{m}", "2.5"), ("Answer: -5", "-5"), ("_2.5_", "2.5"), ("(3)", "3"), ('"3"', "3"),
     ("The answer is 3.", "3"), ("I count 2 and 1. Answer: 3", "3"), ("2 + 1 chairs.\n\\boxed{3}", "3"), ("12 km", "12")],
)  # fmt: skip
def test_accepted_forms_of_a_number(text, value):
    assert number(text) == value


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [("2.5 m", "meters", "2.5"), ("2.5m", "meters", "2.5"), ("2.5 metres.", "meters", "2.5"), ("2.5", "meters", "2.5"),
     ("250 cm", "meters", None), ("8.2 ft", "meters", None), ("2.5 m", "centimeters", None), ("98 cm", "centimeters", "98"),
     ("16 m²", "square meters", "16"), ("16 m^2", "square meters", "16"), ("16 sq m", "square meters", "16"),
     ("$16\\,\\text{m}^{2}$", "square meters", "16"), ("16 square metres", "square meters", "16"),
     ("16 m", "square meters", None), ("16 m²", "meters", None), ("172 square feet", "square meters", None),
     ("two meters", "meters", "2"), ("6'", "meters", None), ('60"', "meters", None), ("5'3\"", "feet", None)],
)  # fmt: skip
def test_only_the_unit_of_the_question_is_accepted(text, unit, value):
    assert number(text, unit) == value


@pytest.mark.parametrize(
    "text",
    ["", "none", "no chairs", "about 3", "~4.25", "3 chairs", "3 or 4", "3-4", "2-3", "3–4", "2 to 3", "3, 4", "3 (three)",
     "two or three", "two-seater", "2x3", "2*3", "2_3", "4 by 5 m", "1 200", "1'200", "1_000", "1,5", "1,2345", "1.234.567",
     "nan", "infinity", "1e999", "9" * 400, "A", "two hundred", "two and a half", "3 and a half", "minus two", "1/2",
     "\\frac{1}{2}", "3 ½", "10²", "10^2", "2 dozen", "2k", "3 hundred", "2nd", "2.5 m (8.2 ft)", "5 ft 3 in", "1m80",
     "2 + 1 = 3", "x = 3", "not 4", "The answer is 3 or 4", "The answer is 3. Answer: 4", "If 2 are hidden, the answer is 3"],
)  # fmt: skip
def test_everything_else_is_no_number(text):
    assert number(text) is None


@given(st.lists(st.integers(0, 99), min_size=2, max_size=3), st.sampled_from(["{}", "Answer: {}", "({})", "{} m"]),
       st.sampled_from([" or ", " to ", ", ", "-", "–", "/", " and ", " ", "*", "_", "'", ")("]))  # fmt: skip
def test_several_numbers_are_no_answer(values, sentence, connective):
    assert number(sentence.format(connective.join(map(str, values)))) is None


@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_numbers_round_trip_through_text(value):
    assert float(number(f"Answer: {value!r}")) == value


@given(st.text())
def test_arbitrary_text_never_raises(text):
    value = number(text)
    assert value is None or math.isfinite(float(value))
    assert value is None or number(value) == value
