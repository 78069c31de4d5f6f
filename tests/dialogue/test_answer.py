"""The option or text that an answer states."""

import pytest
from factories import states
from hypothesis import given
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
    ["A", "a", " A ", "A.", "(A)", "A)", "[A]", "A:", "**A**", "**A.**", "`A`", '"A"', "'A'", "$A$", "A?",
     "A. left", "a. left", "A: left", "A) left", "(A) left", "A left", "A - left", "A, left", "left",
     "Left.", "*left*", "the left", "Option A", "option a", "Option (A) left", "Answer: A", "answer: a.",
     "The answer is A", "The correct answer is (A).", "Final answer: **A**", "\\boxed{A}", "A\nbecause",
     "A because a chair is near", '["A"]', "A\x00", "to the left", "a left turn", "Ａ", "（Ａ）", "“A”", "A;"],
)  # fmt: skip
def test_spellings_of_an_option(text):
    assert canonical_answer(text, "letter", OPTIONS) == "A"


@pytest.mark.parametrize(
    "text",
    ["", " ", ".", "AB", "A or B", "a or b", "A/B", "A, B", "A B", "b, c", "b or c",
     "neither A nor B", "A, B are ruled out", "A. left B. right", "E", "e", "Z. left or right", "none", "null", "not A",
     "left or right", "1", "true", "an answer", "answer", "I cannot say", "A's", "A-frame", "the",
     "(A) or (B)", "(A) or B", "Option A or B", "**A** or **B**", '["A", "B"]', "Answer: A or B", "A是B", "<A> or <B>",
     "Answer: A. Final answer: B", "The answer is not B", "The answer isn't B", "It is not A", "not left",
     "(A) is wrong", "(A) right", "A. right", "left, B", "A is to the left of B", "A is blocked, so B",
     "The answer: unclear", "e.g. a chair", "front-left", "20 °C", "A: no\nB: yes", "(A)\n(B)", "A和B", "不是A", "¬A", "A is ruled out", "anything but A", "A can't be",
     "Eliminate A", "A: false, B: true", "to the left, or is it right?"],
)  # fmt: skip
def test_ambiguous_or_missing_option_is_no_answer(text):
    assert canonical_answer(text, "letter", OPTIONS) is None


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("a table lamp", "D"), ("table lamp", "D"), ("The table lamp!", "D"), ("D a table lamp", "D"),
        ("a right", "B"), ("A right", "B"), ("B\nbecause", "B"), ("option b", "B"), ("c", "C"),
        ("A pretty chair", None), ("a pretty chair", None), ("A chair", None), ("I see a chair", None),
        ("A lamp and a sofa", None), ("A chair stands on the right", "B"), ("C. A pretty chair", "C"),
        ("(B) A and C are turning", "B"), ("A, a chair away", "A"), ("Answer: a chair", None),
    ],
)  # fmt: skip
def test_articles_are_not_letters(text, letter):
    assert canonical_answer(text, "letter", OPTIONS) == letter


def test_article_of_an_option_text_does_not_hide_its_letter():
    options = ["A. pretty chair", "B. old chair"]
    assert canonical_answer("A pretty chair", "letter", options) == "A"
    assert canonical_answer("A pretty chair, I think", "letter", options) == "A"
    assert canonical_answer("an old chair", "letter", options) == "B"
    assert canonical_answer("I think so", "letter", [f"{x}. {x}{x}" for x in "ABCDEFGHI"]) is None


@pytest.mark.parametrize(
    "text",
    ["The answer is B because A is blocked", "ANSWER IS B. A is incorrect.", "to the right", "turn right",
     "The answer is B. Note that A is a common distractor.", "I would pick B — a safe choice.",
     "The correct answer is B. Here's why: option A is blocked", "I considered (A), but it is incorrect. Final answer: B.",
     "B\nA is blocked", "B. A is blocked", "B; A is blocked", "B — A is blocked", "B: a chair on the left",
     "B, as the lamp is left of it", "It is to the right, because left is blocked", "right (B)", "right, so B",
     "B. right because A is left", "I'd go with B", "It must be B.", "B.right", "My choice is B", "B) right",
     "It is to your right-hand side (B)", "Not A. The answer is B", "\\boxed{\\text{B: a thing}}", "$\\boxed{\\mathbf{B}}$",
     "<answer>B</answer>", "**Answer:**\n\nB", "Answer:\nB", "| B | right |", "A. left\nB. right\nC. back\nAnswer: B",
     "**B**\n\nExplanation: (A) is blocked, option C too", "<B>", "B</s>", "B<|im_end|>", "Answer: B\nConfidence: A lot",
     "选项 (B)", "答案是B", "答案：B。", "正确答案为B", "我选B", "选B，因为A被挡住", "B选项", "【B】", "Ｂ．right", "正解はB",
     "정답: B", "Antwort: B", "La respuesta es B", "Opción B", "Réponse : B", "Ответ: B", "Option B: 向右转",
     "B, not A", "B and not A", "B out of the three options", "B, A is wrong", "A and C are wrong, B", "Not A, B", "not A but B", "B rather than A", "It isn't C or A, it's B",
     "A is not the answer. B is.", "B (right), not A (left)", "A... wait, no. B", "A. Correction: B", "Without a doubt B"],
)  # fmt: skip
def test_option_in_a_sentence(text):
    assert canonical_answer(text, "letter", OPTIONS) == "B"


@pytest.mark.parametrize(
    ("text", "options", "letter"),
    [
        ("front-left", HARD, "A"),
        ("to the back-left of it", HARD, "C"),
        ("left", HARD, None),
        ("front", HARD, None),
        ("Turn Left, then stop", TURNS, None),
        ("Turn Left, Turn Right", TURNS, "B"),
        ("I'd say: Turn Left, Turn Right.", TURNS, "B"),
        ("Turn Right, Turn Left, Turn Right", TURNS, "C"),
        ("Turn Left, Turn Right, Turn Back", TURNS, None),
        ("Turn Left, Turn Left, Turn Right", TURNS, None),
        ("there are 3 chairs", ["A. 2", "B. 3"], "B"),
        ("3.5", ["A. 2", "B. 3"], None),
        ("the table lamp", ["A. lamp", "B. table", "C. table lamp"], "C"),
        ("cerca de la silla", ["A. la mesa", "B. la silla"], "B"),
        ("左边", ["A. 左边", "B. 右边"], "A"),
        ("它在右边。", ["A. 左边", "B. 右边"], "B"),
    ],
)
def test_option_texts_are_whole_words_and_whole_lists(text, options, letter):
    assert canonical_answer(text, "letter", options) == letter


def test_letter_inside_an_option_text_is_not_a_second_answer():
    for letter, text in options_by_letter(PLANS).items():
        for form in ("{0}", "{1}", "{0}. {1}", "{0} {1}", "Option {0}: {1}"):
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
PLAIN = ["{0}", "({0})", "{0}.", "{0}. {1}", "{0}: {1}", "({0}) {1}", "Option {0}", "{1}"]
EMPHASIS = ["{}", "**{}**", "*{}*", "_{}_", "`{}`", '"{}"', "\\boxed{{{}}}", "$\\boxed{{\\text{{{}}}}}$", "<b>{}</b>"]  # fmt: skip
SENTENCES = ["{}", "The answer is {}.", "Answer: {}", "**Answer:** {}", "I think it is {}.", "My final answer is {}!",
             "答案是{}。", "Antwort: {}", "La respuesta correcta es {}", "Looking around, I would say {}"]  # fmt: skip
NOISE = ["", " because a chair stands near C", "\nA and C are blocked.", " \n\nI hope this helps!", " since A is blocked"]  # fmt: skip


@given(
    st.sampled_from(["A", "B", "C", "D"]),
    st.sampled_from(PLAIN),
    st.sampled_from(EMPHASIS),
    st.sampled_from(SENTENCES),
    st.sampled_from(NOISE),
)
def test_wrapping_a_readable_answer_does_not_change_it(letter, plain, emphasis, sentence, noise):
    text = plain.format(letter, options_by_letter(OPTIONS)[letter])
    wrapped = sentence.format(emphasis.format(text)) + noise
    assert canonical_answer(wrapped, "letter", OPTIONS) == letter, wrapped


@given(
    st.lists(st.sampled_from(["A", "B", "C", "D"]), min_size=2, max_size=4, unique=True),
    st.sampled_from(["{}", "({})", "**{}**", "option {}"]),
    st.sampled_from([" or ", "/", ", ", " and ", " | ", " & "]),
    st.sampled_from(SENTENCES),
)
def test_competing_options_are_no_answer(letters, form, connective, sentence):
    texts = options_by_letter(OPTIONS)
    for names in (letters, [texts[letter] for letter in letters]):
        competing = sentence.format(connective.join(map(form.format, names)))
        assert canonical_answer(competing, "letter", OPTIONS) is None, competing


@given(st.text(), st.lists(st.text(), max_size=5))
def test_canonical_letter_is_an_option_or_none(text, options):
    letters = options_by_letter(options)
    answer = canonical_answer(text, "letter", options)
    assert answer is None or answer in letters
    assert answer is None or canonical_answer(answer, "letter", options) in letters


PIECES = st.sampled_from(
    ["A", "B", "a", "b", " ", "(", ")", ".", ",", "\n", "**", "left", "right", "not", "is", "or", "because", "answer",
     "1", "2", "-", "=", "\\boxed{", "}", "ft", "option", "'", "⟦", "total of ", ":", "答案", "Ｂ", "±", "1 200"]
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
