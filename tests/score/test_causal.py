"""Scores of counterfactual pairs with known results."""

from dataclasses import replace

import pytest
from factories.metrics import VSI_BENCH

from render_agent.score.causal import Pair, causal_figures, verdict

MUST = Pair(
    "0",
    "0-move",
    "move",
    "object_rel_direction_easy",
    "rooms",
    "a",
    True,
    ("A", "B"),
    ("A", "B"),
    VSI_BENCH["object_rel_direction_easy"],
)
STAY = Pair("1", "1-rotate", "rotate", "object_abs_distance", "rooms", "a", False, ("2.0", "2.0"), ("2.0", "2.0"), VSI_BENCH["object_abs_distance"])  # fmt: skip


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
        (replace(STAY, slack=0.055), ("0.4", "0.452"), "stays", (False, False)),
        (replace(STAY, metric=VSI_BENCH["object_counting"]), ("2", "3"), "strays", (True, False)),
    ],
)
def test_verdict_of_pair(pair, answers, expected, right):
    pair = replace(pair, answers=answers)
    assert (verdict(pair), pair.right) == (expected, right)


def test_no_answer_is_right_for_both_ground_truths():
    assert VSI_BENCH["object_counting"].are_exclusive("4", "3")
    assert VSI_BENCH["object_abs_distance"].are_exclusive("2.0", "3.0")
    assert not VSI_BENCH["object_abs_distance"].are_exclusive("2.0", "2.2")
    assert not VSI_BENCH["object_rel_distance"].are_exclusive("A", "A")


def test_shares_use_their_own_denominators_and_have_intervals():
    scenes = [f"room{n}" for n in range(8)]
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
    assert figures["changes"].keys() == {"move", "rotate"}
    assert figures["changes"]["rotate"]["follows"] == {"share": None, "n": 0, "interval": None}
    assert figures["changes"]["move"]["difference"]["p_holm"] >= figures["changes"]["move"]["difference"]["p"]  # fmt: skip


def test_shares_have_no_interval_below_six_scenes():
    figures = causal_figures([replace(MUST, scene=f"room{n}") for n in range(5)])
    assert figures["follows"] == {"share": 100, "n": 5, "interval": None}
    assert figures["difference"]["p"] is None
