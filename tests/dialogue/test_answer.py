"""The option or text that an answer states."""

import pytest
from factories import states
from hypothesis import given, settings
from hypothesis import strategies as st

from render_agent.dialogue.answer import (
    MAX_ANSWER_CHARACTERS,
    answer_form,
    canonical_answer,
    options_by_letter,
)
from render_agent.dialogue.wording import general

OPTIONS = ["A. left", "B. right", "C. back", "D. a table lamp"]
HARD = ["A. front-left", "B. front-right", "C. back-left", "D. back-right"]
PLANS = ["A. plan a", "B. plan b", "C. turn left, walk to the b"]
TURNS = ["A. Turn Left", "B. Turn Left, Turn Right", "C. Turn Right, Turn Left, Turn Right"]


@pytest.mark.parametrize(
    "text",
    ["A", "a", " A ", "A.", "(A)", "A)", "[A]", "**A**", "**A.**", "`A`", '"A"', "'A'", "$A$", "“A”", "<b>A</b>", "【A】",
     "A. left", "a. left", "A: left", "A) left", "(A) left", "A left", "A - left", "A, left", "**A.** left", "left", "Left.",
     "*left*", '["A"]', "A\x00", "Ａ", "（Ａ）", "Ａ．left", "\\boxed{A}", "$\\boxed{\\text{A}}$", "\\boxed{A. left}"],
)  # fmt: skip
def test_accepted_forms_of_an_option(text):
    assert canonical_answer(text, "letter", OPTIONS) == "A"


@pytest.mark.parametrize(
    "text",
    ["Answer: A", "answer: a.", "**Answer:** **A**", "The answer is A", "The correct answer is (A).", "Final answer: **A**",
     "Answer: A. left", "So the best option is A.", "The lamp is left of B. The answer is A.", "It is near.\n\\boxed{A}",
     "I see a chair; therefore, my answer is: left", "The answer is \\boxed{A}", "**Answer:**\n\nA"],
)  # fmt: skip
def test_last_sentence_that_states_the_answer(text):
    assert canonical_answer(text, "letter", OPTIONS) == "A"


@pytest.mark.parametrize(
    "text",
    ["", " ", ".", "AB", "A or B", "a or b", "A/B", "A, B", "A B", "(A)(B)", "(A) or (B)", "**A** or **B**", '["A", "B"]',
     "A. left B. right", "left or right", "left, right", "E", "e", "Z. left", "none", "null", "not A", "1", "true", "A. right",
     "(A) right", "left, B", "A is to the left of B", "the left one", "the left", "to the left", "A because a chair is near",
     "A\nbecause", "A pretty chair", "I see a chair", "I have one turn left", "all but A", "A's", "A-frame", "A?",
     "A | B", "front-left", "A: no\nB: yes", "A和B", "不是A", "Option A or B", "option A", "I would pick A",
     "The answer is A or B", "The answer is not A", "The answer: unclear", "The answer is A. B is wrong.",
     "The answer is A because B is blocked", "Answer: A. Final answer: B", "The answer is B. No, the answer is A",
     "I doubt that the answer is A", "If B is blocked, the answer is A", "not \\boxed{A}", "\\boxed{A} or \\boxed{B}",
     "\\boxed{A, B}", "Wrong answer: A"],
)  # fmt: skip
def test_everything_else_is_no_option(text):
    assert canonical_answer(text, "letter", OPTIONS) is None


@pytest.mark.parametrize(
    ("text", "options", "letter"),
    [
        ("a table lamp", OPTIONS, "D"),
        ("D. a table lamp", OPTIONS, "D"),
        ("A table lamp", OPTIONS, "D"),
        ("table lamp", OPTIONS, None),
        ("front-left", HARD, "A"),
        ("left", HARD, None),
        ("Turn Left, Turn Right", TURNS, "B"),
        ("turn left,  turn right.", TURNS, "B"),
        ("Turn Left, Turn Right, Turn Back", TURNS, None),
        ("左边", ["A. 左边", "B. 右边"], "A"),
        ("它在右边。", ["A. 左边", "B. 右边"], None),
        ("-5", ["A. 5", "B. -5"], "B"),
        ("B. -5", ["A. 5", "B. -5"], "B"),
        ("a pretty chair", ["A. pretty chair", "B. a pretty chair"], None),
        ("A. pretty chair", ["A. pretty chair", "B. a pretty chair"], "A"),
        ("B", ["A. B", "B. A"], "B"),
    ],
)
def test_text_of_an_option(text, options, letter):
    assert canonical_answer(text, "letter", options) == letter


def test_letter_inside_an_option_text_is_not_a_second_answer():
    for letter, text in options_by_letter(PLANS).items():
        for form in ("{0}", "{1}", "{0}. {1}", "{0} {1}", "Answer: {0}: {1}"):
            assert canonical_answer(form.format(letter, text), "letter", PLANS) == letter


def test_numeric_and_duplicate_option_texts():
    assert canonical_answer("3", "letter", ["A. 2", "B. 3"]) == "B"
    assert canonical_answer("A. 3", "letter", ["A. 2", "B. 3"]) is None
    assert canonical_answer("same", "letter", ["A. same", "B. same"]) is None
    assert canonical_answer("B. same", "letter", ["A. same", "B. same"]) == "B"
    assert canonical_answer("", "letter", ["A.", "B. x"]) is None


def test_letters_of_options():
    assert options_by_letter(["A. a b", "B. right"]) == {"A": "a b", "B": "right"}
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


@pytest.mark.parametrize(
    ("form", "options", "unit", "words"),
    [
        ("letter", OPTIONS, None, ["letter", "A, B, C or D"]),
        ("letter", ["A. left", "B. right"], None, ["letter", "A or B"]),
        ("letter", ["A. left"], None, ["the letter A"]),
        ("number", (), None, ["one number"]),
        ("number", (), "square meters", ["a number in square meters", "without a unit"]),
        ("text", (), None, ["a short text"]),
    ],
)
def test_answer_form(form, options, unit, words):
    phrase = answer_form(form, options, general(), unit)
    assert all(word in phrase for word in words)


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("What is the distance between the sofa and the stove (in meters)?", "meters"),
        ("What is the longest dimension of the bed, measured in centimeters?", "centimeters"),
        ("What is the size of this room (in square meters)? \nIf several …", "square meters"),
        ("How many chairs are in this room?", None),
        ("Convert the length in feet to a length in meters.", None),
    ],
)
def test_unit_that_a_question_names(text, unit):
    assert states.question(text=text, answer_form="number").unit == unit
    assert states.question(text=text, answer_form="text").unit is None


# Of letter and text.
PLAIN = ["{0}", "({0})", "{0}.", "{0}. {1}", "{0}: {1}", "({0}) {1}", "{1}"]
EMPHASIS = ["{}", "**{}**", "*{}*", "_{}_", "`{}`", '"{}"', "\\boxed{{{}}}", "$\\boxed{{\\text{{{}}}}}$", "<b>{}</b>"]  # fmt: skip
STATED = [
    "{}",
    "The answer is {}.",
    "Answer: {}",
    "**Answer:** {}",
    "It is far. My final answer is {}.",
]
CONNECTIVES = [" or ", "/", ", ", " and ", " | ", " & ", " ", "; ", "\n", ". ", " not ", ", so ", " because of ", ": no. ",
               " is right of ", ", wait, no, ", " - ", ") ("]  # fmt: skip
AROUND = [
    "{}",
    "I see {}",
    "{} I think",
    "Not sure: {}",
    "either {}",
    "{}!",
    "My choice: {}",
    "the {} one",
    "{}?",
]


@given(
    st.sampled_from(["A", "B", "C", "D"]),
    st.sampled_from(PLAIN),
    st.sampled_from(EMPHASIS),
    st.sampled_from(STATED),
)
def test_decoration_and_phrases_do_not_change_an_answer(letter, plain, emphasis, statement):
    text = plain.format(letter, options_by_letter(OPTIONS)[letter])
    wrapped = statement.format(emphasis.format(text))
    assert canonical_answer(wrapped, "letter", OPTIONS) == letter, wrapped


OPTION_LISTS = [[*OPTIONS[:3]], HARD, TURNS, ["A. 1", "B. 2", "C. 12"], ["A. yes", "B. no"], ["A. a", "B. b", "C. a b"]]  # fmt: skip


@settings(max_examples=500)
@given(st.data(), st.sampled_from(OPTION_LISTS), st.sampled_from(AROUND))
def test_text_that_names_two_options_is_never_one_of_them(data, options, around):
    names = st.sampled_from([*options_by_letter(options).items()])
    parts, letters = [], data.draw(st.lists(names, min_size=2, max_size=3, unique=True))
    for letter, text in letters:
        form = data.draw(st.sampled_from([*PLAIN, "**{0}**", "'{1}'", "\\text{{{0}}}"]))
        parts += [form.format(letter, text), data.draw(st.sampled_from(CONNECTIVES))]
    text = around.format("".join(parts[:-1]))
    answer = canonical_answer(text, "letter", options)
    # "Turn Left, Turn Right" is the text of an option itself.
    whole = {letter for letter, option in options_by_letter(options).items() if option.lower() in text.lower()}  # fmt: skip
    assert answer is None or answer in whole - {letter for letter, _ in letters}, text


@given(st.text(), st.lists(st.text(), max_size=5))
def test_canonical_letter_is_an_option_or_none(text, options):
    letters = options_by_letter(options)
    answer = canonical_answer(text, "letter", options)
    assert answer is None or answer in letters
    assert answer is None or canonical_answer(answer, "letter", options) == answer


PIECES = st.sampled_from(
    ["A", "B", "a", "b", " ", "(", ")", ".", ",", "\n", "**", "left", "right", "not", "is", "or", "the answer is", "answer",
     "1", "2", "-", "=", "\\boxed{", "}", "ft", "option", "'", '"', "^", "²", ":", "Ｂ", "three", "e5"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=30).map("".join), st.sampled_from(["letter", "number", "text"]))
def test_any_text_has_an_answer_of_its_form_or_none(text, wanted):
    answer = canonical_answer(text, wanted, OPTIONS if wanted == "letter" else ())
    assert answer is None or canonical_answer(answer, wanted, OPTIONS) == answer
    if answer is not None and wanted == "number":
        float(answer)


@given(st.text(), st.sampled_from(["number", "text"]))
def test_canonical_answer_is_idempotent(text, wanted):
    answer = canonical_answer(text, wanted)
    assert answer is None or canonical_answer(answer, wanted) == answer
