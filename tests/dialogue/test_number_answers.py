"""The number that an answer states."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from render_agent.dialogue.answer import canonical_answer
from render_agent.util.numbers import SMALL_NUMBERS


def number(text):
    return canonical_answer(text, "number")


@pytest.mark.parametrize(("word", "value"), SMALL_NUMBERS.items())
def test_number_words_are_numbers(word, value):
    assert number(f"About {word} chairs.") == str(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2", "2"), ("2.0", "2"), ("+2", "2"), ("-2", "-2"), ("−2", "-2"), (".5", "0.5"), ("5.", "5"),
        ("about 3 chairs", "3"), ("There are 3.", "3"), ("**3**", "3"), ("3 (three)", "3"),
        ("1,234", "1234"), ("1,234,567.5 m", "1234567.5"), ("1.5e3", "1500"), ("16.2 m²", "16.2"),
        ("16.2 m2", "16.2"), ("16.2 m^2", "16.2"), ("~4.25", "4.25"), ("0.1", "0.1"), ("007", "7"),
        ("3, with the one behind the sofa", "3"), ("3 chairs, half hidden", "3"), ("50 cm", "50"),
        ("５", "5"), ("5個", "5"), ("约2.5米", "2.5"), ("答案是2.5米", "2.5"), ("| chairs | 5 |", "5"), ("$2.5$", "2.5"),
        ("2.5\\,\\text{m}", "2.5"), ("Answer: -5", "-5"), ("Answer:-5", "-5"), ("12 km", "12"), ("\\boxed{2.5\\text{ m}}", "2.5"), ("2 + 3 chairs: \\boxed{5}", "5"),
        ("_2.5_", "2.5"), ("٣", "3"), ("٢٫٥", "2.5"), ("\\boxed{20\\,\\text{m}^{2}}", "20"), ("not 4 but 5", "5"), ("not 4", None),
        ("twenty-one", "21"), ("Thirty chairs", "30"), ("forty five", "45"), ("twenty to thirty", None), ("one twenty", None),
        ("4. Correction: 5", "5"), ("4... wait, no, 5", "5"), ("5 is the answer, not 4", "5"),
    ],
)  # fmt: skip
def test_one_number(text, value):
    assert number(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 200", "1200"), ("1\u00a0200", "1200"), ("1\u202f200 cm", "1200"), ("1'200", "1200"), ("1’200", "1200"),
        ("12 345 678", "12345678"), ("1_000", "1000"), ("1_0", None), ("1{,}200", "1200"), ("1,2345", None), ("1 20", None), ("1.234.567", None), ("1,5", None),
    ],
)  # fmt: skip
def test_separators_of_thousands(text, value):
    assert number(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("256+37 = 293", "293"), ("Answer: m+n = 256+37 = 293", "293"), ("2 here, 3 there, 2+3 = 5", "5"),
        ("3.1 x 4 = 12.4 m²", "12.4"), ("5 / 2 ≈ 2.5", "2.5"), ("x = 3, y = 4", None), ("x = 3, so 2x = 6", None),
        ("1.8 m = 180 cm", None), ("12.5 ≈ 13", None), ("distance = 2.5 m", "2.5"), ("√6.25 = 2.5", "2.5"), ("sqrt(6.25) = 2.5", "2.5"), ("2 * 3 = 6", "6"),
    ],
)  # fmt: skip
def test_result_of_an_equation(text, value):
    assert number(text) == value


@pytest.mark.parametrize(
    "text",
    ["approximately 2.5 meters (8.2 feet)", "2.5 m (250 cm)", "8.2 feet (2.5 m)", "2.5 m or 8.2 ft", "2.5 m = 8.2 ft",
     "2.5 meters, about 98 inches", "2.5 m (8 ft 2 in)", "27 ft² = 2.5 m²", "2.5 m² / 27 sq ft", "2.5 ± 0.3 m", "2.5 m (±0.3)", "2.5 (from 2 to 3)"],
)  # fmt: skip
def test_conversions_and_tolerances_do_not_count(text):
    assert number(text) == "2.5"


def test_feet_count_alone():
    assert number("8.2 feet") == "8.2"
    assert number("5 ft 3 in") is None


@pytest.mark.parametrize(
    "text",
    ["The answer is 5, because 2 are red and 3 are blue", "Answer: 5. There are 2 on the left.", "a total of 5 chairs",
     "In total, there are 5 chairs", "5 chairs, because 2 and 3 make 5", "5 chairs (2 red, 3 blue)",
     "5 chairs on the 2nd floor", "In the 3D scan I count 5.", "La respuesta es 5", "2 here, 3 there. Total: 5"],
)  # fmt: skip
def test_stated_number(text):
    assert number(text) == "5"


@pytest.mark.parametrize(
    "text",
    ["", "none", "no chairs", "3 or 4", "3-4", "2-3", "3–4", "2 to 3", "between two and three", "3 or four",
     "Answer: 2 or 3", "two-seater", "the twenty-first", "2x3", "4 by 5 m", "nan", "infinity", "1e999", "9" * 400, "A",
     "two hundred", "two and a half", "minus two", "one point five", "1/2", "\\frac{1}{2}",
     "3 ½", "three quarters", "2 dozen", "2k", "3 hundred",
     "5 chairs in total, 2 of them red", "2 chairs near the door. There are 3 in total", "the 2nd"],
)  # fmt: skip
def test_texts_with_no_or_several_numbers(text):
    assert number(text) is None


NUMBERS = st.floats(min_value=-1e6, max_value=1e6, allow_nan=False).map(repr) | st.integers(
    -999, 999
).map(str)
EMPHASIS = ["{}", "**{}**", "*{}*", "`{}`", '"{}"', "\\boxed{{{}}}", "${}$", "({})", "<b>{}</b>"]
UNITS = ["{}", "{} m", "about {} meters", "~{}", "{} chairs", "{} m²", "{} cm"]
SENTENCES = ["{}", "The answer is {}.", "Answer: {}", "**Answer:** {}", "I think it is {}.", "答案是{}。", "Total: {}",
             "2 + 1 = {}"]  # fmt: skip
NOISE = [
    "",
    " because the wall is 3 m away",
    " (2 on the left)",
    ", 98 inches",
    " ± 0.1",
    "\n\nI hope this helps!",
]


@given(
    NUMBERS,
    st.sampled_from(UNITS),
    st.sampled_from(EMPHASIS),
    st.sampled_from(SENTENCES),
    st.sampled_from(NOISE),
)
def test_wrapping_a_readable_number_does_not_change_it(value, unit, emphasis, sentence, noise):
    wrapped = sentence.format(emphasis.format(unit.format(value))) + noise
    assert number(value) is not None
    assert number(wrapped) == number(value), wrapped


@given(st.lists(st.integers(0, 99), min_size=2, max_size=3, unique=True), st.sampled_from(SENTENCES),
       st.sampled_from([" or ", " to ", ", ", "-", "–", "/", " and "]))  # fmt: skip
def test_competing_numbers_are_no_answer(values, sentence, connective):
    assert number(sentence.format(connective.join(map(str, values)))) is None


@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_numbers_round_trip_through_text(value):
    assert float(number(f"it is {value!r}, I think")) == value


@given(st.text())
def test_arbitrary_text_never_raises(text):
    value = number(text)
    assert value is None or math.isfinite(float(value))
    assert value is None or number(value) == value
