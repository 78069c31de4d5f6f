import random

import pytest

from render_agent.score import vlmevalkit
from render_agent.score.official import CHOICE_TYPES, NUMBER_TYPES
from render_agent.score.parsers import PARSERS, lmms_eval_number

NAMES = ("official", "lmms-eval", "vlmevalkit")


def test_the_parsers_have_names():
    assert tuple(PARSERS) == NAMES


@pytest.mark.parametrize(
    ("answer", "scores"),
    [
        ("A", (1, 1, 1)), ("a", (1, 1, 1)), ("A.", (1, 1, 1)), ("A. left", (1, 1, 1)), ("(A)", (0, 0, 1)),
        ("A\nbecause", (0, 0, 1)), ("The answer is A.", (0, 0, 1)), ("left, so A", (0, 0, 1)), ("", (0, 0, 0)),
        ("A or B", (1, 1, 0)), ("B", (0, 0, 0)), ("**A**", (0, 0, 1)), ("no answer", (0, 0, 0)), (None, (0, 0, 0)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("question_type", CHOICE_TYPES)
def test_a_letter_as_each_parser_reads_it(question_type, answer, scores):
    assert [PARSERS[name](question_type, answer, "A") for name in NAMES] == list(scores)


@pytest.mark.parametrize(
    ("answer", "scores"),
    [
        ("21", (1, 1, 1)), ("21.0 chairs", (1, 1, 1)), ("twenty-one", (0, 1, 0)), ("about 21", (0, 1, 1)),
        ("21 of 30", (1, 1, 0.2)), ("30, no, 21", (0, 0.2, 1)), ("21m", (0, 1, 1)), ("", (0, 0, 0)), (None, (0, 0, 0)),
        ("21\n", (1, 1, 1)), ("[21]", (0, 1, 1)), ("nan", (0, 0, 0)), ("many", (0, 0, 0)), ("<answer>21</answer> or 9", (0, 1, 1)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("question_type", NUMBER_TYPES)
def test_a_number_as_each_parser_reads_it(question_type, answer, scores):
    assert [PARSERS[name](question_type, answer, "21") for name in NAMES] == list(scores)


@pytest.mark.parametrize("name", NAMES)
def test_types_of_ones_own_are_compared_as_texts_where_their_truth_is_one(name):
    assert PARSERS[name]("mine", "Red.", "red") == 1
    assert PARSERS[name]("mine", "3", "2") == 0.1


@pytest.mark.parametrize(
    ("answer", "number"),
    [("a hundred and five", 105), ("one two", 1), ("Twenty one chairs", 21), ("2-3", 2), ("-3", -3), ("x.5", 0.5),
     ("1e3", 1), ("someone", None), ("three hundred", 300), ("zero", 0)],
)  # fmt: skip
def test_the_first_number_is_lmms_evals(answer, number):
    assert lmms_eval_number(answer) == number


@pytest.mark.parametrize(
    ("answer", "letter"),
    [
        ("<answer>b) right</answer> but C", "B"),
        ("<answer>Because</answer>", "B"),
        ("left (C) </answer>", "C"),
        ("I like D </think> the rest says nothing", "D"),
        ("<think>A or B?</think>\nC. back", "C"),
        ("A\nsome words\nthen B\nand nothing", "B"),
        ("Option A: left\nOption B: right\nfinal answer: b.", "B"),
        ("答案：C因为", "C"),
        ("A and B", None),
        ("AB", None),
        ("Option A: left", None),
        ("\u200bF\ufeff", "F"),
        ("G", None),
        ("so it must be (E)! " + "really " * 200, "E"),
    ],
)
def test_the_stages_of_vlmevalkit(answer, letter):
    assert vlmevalkit.letter(answer) == letter


@pytest.mark.parametrize(
    ("answer", "number"),
    [("twenty-one", -1), ("twelve", 12), ("3 4", 4), ("3-4", -4), ("1,234", 234), ("2.", 2), ("[7, 8]", 7), ("[x]", None),
     ("[]", None), ("9 <think> 5", 5), ("9 </think> none", 9), ("1.5e2 m", 150), ("Twenty chairs", 20), ("<answer> 4 m</answer> 5", 4)],
)  # fmt: skip
def test_the_last_number_is_vlmevalkits(answer, number):
    assert vlmevalkit.number(answer) == number


@pytest.mark.parametrize("name", NAMES)
def test_no_text_makes_a_parser_raise(name):
    pieces = ["<answer>", "</answer>", "</think>", "A", "(B)", "one", "-", "1e9999", "[", "]", "\n", "nan", "٣", "½", "²", "\x00",
              "[[[", "{}", "9" * 400, "𝟙", " "]  # fmt: skip
    chance = random.Random(3)
    for _ in range(3000):
        text = "".join(chance.choices(pieces, k=chance.randint(0, 9)))
        for question_type, truth in (("object_counting", "2"), ("route_planning", "A")):
            assert 0 <= PARSERS[name](question_type, text, truth) <= 1
