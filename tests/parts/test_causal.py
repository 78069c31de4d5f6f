"""Scores of counterfactual pairs with known results."""

import random
from dataclasses import replace
from fractions import Fraction

import pytest
from factories.metrics import VSI_BENCH

from render_agent.parts.counterfactual.causal import CounterpartPair, causal_figures, classify_pair
from render_agent.score.metrics import ExactMatch, RefinedMatch

MUST = CounterpartPair(
    "move",
    "object_rel_direction_easy",
    ("rooms", "a"),
    True,
    ("A", "B"),
    ("A", "B"),
    VSI_BENCH["object_rel_direction_easy"],
)
STAY = CounterpartPair("names", "object_abs_distance", ("rooms", "a"), False, ("2.0", "2.0"), ("2.0", "2.0"), VSI_BENCH["object_abs_distance"])  # fmt: skip


@pytest.mark.parametrize(
    ("pair", "answers", "expected", "right"),
    [
        (MUST, ("A", "B"), "follows", (True, True)),
        (MUST, ("B", "B"), "keeps", (False, True)),
        (MUST, ("A", "A"), "keeps", (True, False)),
        (MUST, ("B", "A"), "other", (False, False)),
        (MUST, ("A", None), "unanswered", (True, False)),
        (STAY, ("2.0", "2.1"), "stays", (True, True)),
        (STAY, ("2.0", "2.2"), "strays", (True, True)),
        (STAY, ("9", "9"), "stays", (False, False)),
        (STAY, (None, None), "unanswered", (False, False)),
        (replace(STAY, metric=VSI_BENCH["object_counting"]), ("2", "3"), "strays", (True, False)),
    ],
)
def test_verdict_of_pair(pair, answers, expected, right):
    pair = replace(pair, answers=answers)
    assert (classify_pair(pair), pair.right) == (expected, right)


@pytest.mark.parametrize(
    ("type_", "largest_error"),
    [("object_counting", Fraction(5, 100)), ("object_abs_distance", Fraction(3, 10))],
)
def test_numbers_are_exclusive_if_their_ranges_of_correct_answers_are_disjoint(
    type_, largest_error
):
    """The condition is (1 - e) · larger > (1 + e) · smaller, in exact arithmetic; equality counts as common."""
    metric, rng = VSI_BENCH[type_], random.Random(3)
    ratio = (1 + largest_error) / (1 - largest_error)
    num_exclusive = num_equal = 0
    for _ in range(3000):
        smaller = Fraction(rng.randrange(1, 900), 10 ** rng.randrange(3))
        larger = smaller * ratio * rng.choice((1, Fraction(rng.randrange(900, 1100), 1000)))
        larger = Fraction(f"{float(larger):.{rng.randrange(1, 3)}f}")
        if larger <= smaller:
            continue
        truths = f"{float(smaller)}", f"{float(larger)}"
        margin = (1 - largest_error) * larger - (1 + largest_error) * smaller
        assert metric.are_exclusive(*truths) == metric.are_exclusive(*truths[::-1]) == (margin > 0)
        num_exclusive += margin > 0
        num_equal += margin == 0
        middle = f"{float(((1 - largest_error) * larger + (1 + largest_error) * smaller) / 2)}"
        if margin < -1e-6 * larger:
            assert metric.is_correct(middle, truths[0])
            assert metric.is_correct(middle, truths[1])
    assert num_exclusive > 500
    assert num_equal > 50


@pytest.mark.parametrize(
    ("metric", "first", "second", "expected"),
    [
        (VSI_BENCH["object_counting"], "4", "3", True),
        (VSI_BENCH["object_counting"], "18", "19", False),  # 18.5 is right for both
        (VSI_BENCH["object_abs_distance"], "1.8", "2.7", False),  # so is 2.2
        (VSI_BENCH["object_abs_distance"], "0.7", "1.3", False),  # so is 0.91, just
        (VSI_BENCH["object_abs_distance"], "1.0", "1.9", True),
        (VSI_BENCH["object_abs_distance"], "0", "1.9", True),
        (VSI_BENCH["object_abs_distance"], "-1", "1", True),
        (VSI_BENCH["object_abs_distance"], "-1", "-1.2", False),
        (VSI_BENCH["object_rel_distance"], "A", "B", True),
        (VSI_BENCH["object_rel_distance"], "A", "A", False),
        (ExactMatch(), "left", "right", True),
        (RefinedMatch(), "left", "right", False),  # "left right" contains both
    ],
)
def test_no_answer_is_right_for_exclusive_ground_truths(metric, first, second, expected):
    assert metric.are_exclusive(first, second) is expected


def test_shares_use_their_own_denominators_and_have_intervals():
    scenes = [("rooms", f"room{n}") for n in range(8)]
    pairs = [replace(MUST, scene=scene, answers=("A", "B" if n % 2 else "A")) for n, scene in enumerate(scenes)]  # fmt: skip
    pairs += [replace(STAY, scene=scene) for scene in scenes]
    figures = causal_figures(pairs)
    assert (figures["n"], figures["must"], figures["unanswered"]) == (16, 8, 0)
    assert {name: figures[name]["share"] for name in ("both_right", "follows", "keeps", "stays", "strays")} == {
        "both_right": 75, "follows": 50, "keeps": 50, "stays": 100, "strays": 0,
    }  # fmt: skip
    low, high = figures["follows"]["interval"]
    assert 0 < low < 50 < high < 100
    assert figures["follows"]["n"] == 8
    assert figures["original"] == 100
    assert figures["changed"] == 75
    assert figures["difference"]["points"] == -25
    assert figures["changes"].keys() == {"move", "names"}
    assert figures["changes"]["names"]["follows"] == {"share": None, "n": 0, "interval": None}
    assert figures["changes"]["move"]["difference"]["p_holm"] >= figures["changes"]["move"]["difference"]["p"]  # fmt: skip


def test_shares_have_no_interval_below_six_scenes():
    figures = causal_figures([replace(MUST, scene=("rooms", f"room{n}")) for n in range(5)])
    assert figures["follows"] == {"share": 100, "n": 5, "interval": None}
    assert figures["difference"]["p"] is None
