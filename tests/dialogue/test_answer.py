import pytest
from hypothesis import given
from hypothesis import strategies as some

from render_agent.dialogue.answer import (
    MAX_ANSWER_CHARACTERS,
    answer_form,
    canonical_answer,
    options_by_letter,
)
from render_agent.dialogue.wording import general

OPTIONS = ["A. left", "B. right", "C. back", "D. a table lamp"]
PLANS = ["A. plan a", "B. plan b", "C. turn left, walk to the b"]


@pytest.mark.parametrize(
    "text",
    ["A", "a", " A ", "A.", "(A)", "A)", "[A]", "A:", "**A**", "**A.**", "`A`", '"A"', "'A'", "$A$", "A?",
     "A. left", "a. left", "A: left", "A) left", "(A) left", "A left", "A - left", "A, left", "left",
     "Left.", "*left*", "the left", "Option A", "option a", "Option (A) left", "Answer: A", "answer: a.",
     "The answer is A", "The correct answer is (A).", "Final answer: **A**", "\\boxed{A}", "A\nbecause",
     "A because a chair is near", '["A"]', "A\x00"],
)  # fmt: skip
def test_spellings_of_an_option(text):
    assert canonical_answer(text, "letter", OPTIONS) == "A"


@pytest.mark.parametrize(
    "text",
    ["", " ", ".", "AB", "A or B", "a or b", "A/B", "A, B", "A B", "b, c", "b or c", "A and not B",
     "neither A nor B", "A. left B. right", "E", "e", "Z. left or right", "none", "null", "not A",
     "a left turn", "left or right", "to the left", "1", "true", "an answer", "answer", "I cannot say",
     "A's", "A-frame", "Ａ", "the"],
)  # fmt: skip
def test_ambiguous_or_missing_option_is_no_answer(text):
    assert canonical_answer(text, "letter", OPTIONS) is None


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("a table lamp", "D"), ("table lamp", "D"), ("The table lamp!", "D"), ("D a table lamp", "D"),
        ("a right", "B"), ("B\nbecause", "B"), ("option b", "B"), ("c", "C"),
    ],
)  # fmt: skip
def test_articles_are_not_letters(text, letter):
    assert canonical_answer(text, "letter", OPTIONS) == letter


def test_letter_inside_an_option_text_is_not_a_second_answer():
    for letter, text in options_by_letter(PLANS).items():
        for answer_text in (
            letter,
            text,
            f"{letter}. {text}",
            f"{letter} {text}",
            f"Option {letter}: {text}",
        ):
            assert canonical_answer(answer_text, "letter", PLANS) == letter


def test_numeric_and_duplicate_option_texts():
    assert canonical_answer("3", "letter", ["A. 2", "B. 3"]) == "B"
    assert canonical_answer("same", "letter", ["A. same", "B. same"]) is None
    assert canonical_answer("B. same", "letter", ["A. same", "B. same"]) == "B"
    assert canonical_answer("", "letter", ["A.", "B. x"]) is None


def test_letters_of_options():
    assert options_by_letter(OPTIONS) == {
        "A": "left",
        "B": "right",
        "C": "back",
        "D": "a table lamp",
    }
    assert options_by_letter(["left", "right"]) == {"A": "left", "B": "right"}
    assert options_by_letter(["(a) left", "(b) right"]) == {"A": "left", "B": "right"}
    assert options_by_letter(["left", "A. right"]) == {"A": "left", "B": "A. right"}
    assert options_by_letter([]) == {}


@pytest.mark.parametrize(("text", "answer"), [(" red ", "red"), ("none", "none"), ("A", "A")])
def test_texts_are_kept(text, answer):
    assert canonical_answer(text, "text") == answer


@pytest.mark.parametrize("text", ["", "  \n", "null", "NULL"])
def test_empty_text_is_no_answer(text):
    assert canonical_answer(text, "text") is None


def test_long_text_is_neither_a_letter_nor_a_number():
    assert canonical_answer("A" + " x" * MAX_ANSWER_CHARACTERS, "letter", OPTIONS) is None
    assert canonical_answer("3" + " x" * MAX_ANSWER_CHARACTERS, "number") is None


def test_answer_form():
    assert answer_form("letter", OPTIONS, general()) == "one letter, A, B, C or D"
    assert answer_form("letter", ["A. left", "B. right"], general()) == "one letter, A or B"
    assert answer_form("letter", ["A. left"], general()) == "the letter A"
    forms = [answer_form(wanted, (), general()) for wanted in ("number", "text")]
    assert forms == ["one number", "a short text"]


@given(some.text(), some.lists(some.text(), max_size=5))
def test_canonical_letter_is_an_option_or_none(text, options):
    answer = canonical_answer(text, "letter", options)
    assert answer is None or answer in options_by_letter(options)
    assert answer is None or canonical_answer(answer, "letter", options) in (
        answer,
        *options_by_letter(options),
    )


@given(some.text(), some.sampled_from(["number", "text"]))
def test_canonical_is_idempotent(text, wanted):
    answer = canonical_answer(text, wanted)
    assert answer is None or canonical_answer(answer, wanted) == answer
