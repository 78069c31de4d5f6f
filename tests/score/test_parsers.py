import math
import random
from itertools import groupby

import pytest
from factories.metrics import BY_FORM, VSI_BENCH

from render_agent.score import lmms_eval, vlmevalkit
from render_agent.score.official import mean_relative_accuracy
from render_agent.score.parsers import PARSERS
from render_agent.tasks.question_types import CHOICE_TYPES, NUMBER_TYPES


def score(name, metric, answer, truth):
    read = PARSERS[name].read(answer, metric.form)
    return 0.0 if read is None else metric.score(read, (truth,))


NAMES = ("official", "lmms-eval", "vlmevalkit")


@pytest.mark.parametrize(
    ("answer", "scores"),
    [
        ("A", (1, 1, 1)), ("a", (1, 1, 1)), ("A.", (1, 1, 1)), ("A. left", (1, 1, 1)), ("(A)", (0, 0, 1)),
        ("A\nbecause", (0, 0, 1)), ("The answer is A.", (0, 0, 1)), ("left, so A", (0, 0, 1)), ("", (0, 0, 0)),
        ("A or B", (1, 1, 0)), ("B", (0, 0, 0)), ("**A**", (0, 0, 1)), ("no answer", (0, 0, 0)), (None, (0, 0, 0)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("question_type", CHOICE_TYPES)
def test_letters_by_parser(question_type, answer, scores):
    assert [score(name, VSI_BENCH[question_type], answer, "A") for name in NAMES] == list(scores)


@pytest.mark.parametrize(
    ("answer", "scores"),
    [
        ("21", (1, 1, 1)), ("21.0 chairs", (1, 1, 1)), ("twenty-one", (0, 1, 0)), ("about 21", (0, 1, 1)),
        ("21 of 30", (1, 1, 0.2)), ("30, no, 21", (0, 0.2, 1)), ("21m", (0, 1, 1)), ("", (0, 0, 0)), (None, (0, 0, 0)),
        ("21\n", (1, 1, 1)), ("[21]", (0, 1, 1)), ("nan", (0, 0, 0)), ("many", (0, 0, 0)), ("<answer>21</answer> or 9", (0, 1, 1)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("question_type", NUMBER_TYPES)
def test_numbers_by_parser(question_type, answer, scores):
    assert [score(name, VSI_BENCH[question_type], answer, "21") for name in NAMES] == list(scores)


@pytest.mark.parametrize("name", NAMES)
def test_custom_types_with_text_ground_truth_are_compared_as_text(name):
    assert score(name, BY_FORM["text"], "Red.", "red") == 1
    assert score(name, BY_FORM["text"], "3", "2") == 0.1


@pytest.mark.parametrize(
    ("answer", "number"),
    [("a hundred and five", 105), ("one two", 3), ("Twenty one chairs", 21), ("2-3", 2), ("-3", -3), ("x.5", 5),
     ("1e3", 1), ("someone", None), ("three hundred", 300), ("zero", 0), (".5", 5), ("2.", 2), ("_Two_", 2),
     ("Three, one by the door and two by the bed", 4), ("two, three", 5), ("one two three", 6), ("1,234", 1),
     ("one apple, room 2", 1), ("room 2 has one", 2), ("and two", 2), ("hundred thousand", 100_000),
     ("two thousand three hundred and four", 2304), ("hundred " * 200, math.inf), ("٣ chairs", 3), ("½", None)],
)  # fmt: skip
def test_lmms_eval_numbers(answer, number):
    """Expected values come from lmms-eval 0.7.3."""
    assert lmms_eval.first_number(answer) == number


def parse_by_the_rules(answer):
    """Reimplementation of lmms-eval's rules: split the text into runs of one character class, then scan them."""
    values = dict(zip("zero one two three four five six seven eight nine ten eleven twelve".split(), range(13), strict=True))  # fmt: skip
    teens = "thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()
    tens = "twenty thirty forty fifty sixty seventy eighty ninety".split()
    values |= {word: 13 + index for index, word in enumerate(teens)}
    values |= {word: 20 + 10 * index for index, word in enumerate(tens)}
    text = answer.lower()
    pieces = ["".join(run) for _, run in groupby(text, lambda sign: (sign.isdecimal(), "a" <= sign <= "z"))]  # fmt: skip
    read = []
    for index, piece in enumerate(pieces):
        if piece[0].isdecimal() and not read:
            minus = index > 0 and pieces[index - 1].endswith("-")
            following = pieces[index + 1 : index + 3]
            after = f".{following[1]}" if len(following) == 2 and following[0] == "." and following[1][0].isdecimal() else ""  # fmt: skip
            return float(("-" if minus else "") + piece + after)
        if piece in values or piece in ("hundred", "thousand"):
            read.append(piece)
        elif read and "a" <= piece[0] <= "z" and piece != "and":
            break
    if not read:
        return None
    thousands, units = 0, 0
    for word in read:
        if word == "thousand":
            thousands, units = thousands + (units or 1) * 1000, 0
        else:
            units = (units or 1) * 100 if word == "hundred" else units + values[word]
    return float(thousands + units)


@pytest.mark.parametrize("count", [3_000, pytest.param(300_000, marks=pytest.mark.slow)])
def test_lmms_eval_numbers_agree_with_reimplementation(count):
    chance = random.Random(11)
    pieces_text = "zero one two three twelve twenty-one forty hundred thousand and by the door a about ninety _Two_ TWO".split()  # fmt: skip
    pieces = [*pieces_text, *" \n\t.,-_+()'", "3", "3.0", ".5", "-2", "1,234", "1e3", "½", "²", "٣", "𝟙", "İ", "\0", "--4", "5.", "9" * 30, "…", "B."]  # fmt: skip
    for _ in range(count):
        sample = chance.choices(pieces, k=chance.randint(0, 8))
        if chance.random() < 0.2:
            sample = [chr(chance.randint(32, 0x2FFF)) for _ in sample]
        answer = chance.choice(["", " "]).join(sample)
        expected = parse_by_the_rules(answer)
        assert lmms_eval.first_number(answer) == expected, answer
        right = 0.0 if expected is None else mean_relative_accuracy(expected, 3)
        assert score("lmms-eval", VSI_BENCH["object_counting"], answer, "3") == right
        first = answer.split(" ")[0].rstrip(".").strip()
        assert score("lmms-eval", VSI_BENCH["route_planning"], answer, "B") == float(
            first.lower() == "b"
        )


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
def test_vlmevalkit_letter_stages(answer, letter):
    assert vlmevalkit.letter(answer) == letter


@pytest.mark.parametrize(
    ("answer", "number"),
    [("twenty-one", -1), ("twelve", 12), ("3 4", 4), ("3-4", -4), ("1,234", 234), ("2.", 2), ("[7, 8]", 7), ("[x]", None),
     ("[]", None), ("9 <think> 5", 5), ("9 </think> none", 9), ("1.5e2 m", 150), ("Twenty chairs", 20), ("<answer> 4 m</answer> 5", 4)],
)  # fmt: skip
def test_vlmevalkit_numbers(answer, number):
    assert vlmevalkit.tagged_number(answer) == number


@pytest.mark.parametrize("name", NAMES)
def test_parsers_never_raise(name):
    pieces = ["<answer>", "</answer>", "</think>", "A", "(B)", "one", "-", "1e9999", "[", "]", "\n", "nan", "٣", "½", "²", "\x00",
              "[[[", "{}", "9" * 400, "𝟙", " "]  # fmt: skip
    chance = random.Random(3)
    for _ in range(3000):
        text = "".join(chance.choices(pieces, k=chance.randint(0, 9)))
        for question_type, truth in (("object_counting", "2"), ("route_planning", "A")):
            assert 0 <= score(name, VSI_BENCH[question_type], text, truth) <= 1
