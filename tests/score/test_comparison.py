import math
import random

import numpy as np
import pytest

from render_agent.score.comparison import Side, compare, incomparable, ladder, mcnemar
from render_agent.score.tables import ladder_table


def side(name, scores, kind="route_planning", subset="full", **results):
    """Return a run with these scores and four questions per scene."""
    rows = [
        {
            "question_id": str(number), "type": kind, "dataset": "d", "scene": str(number // 4),
            "truth": "A", "answer": "A" if score else "B", "score": score, **results,
        }
        for number, score in enumerate(scores)
    ]  # fmt: skip
    return Side(name, {"questions": rows}, {"subset": subset})


@pytest.mark.parametrize(
    ("only_a", "only_b", "p"),
    [(0, 0, 1), (1, 0, 1), (0, 5, 0.0625), (5, 5, 1), (2, 10, 2 * 79 / 4096), (0, 10, 2 / 1024), (3, 9, 2 * 299 / 4096)],
)  # fmt: skip
def test_mcnemar_p_values(only_a, only_b, p):
    assert mcnemar(only_a, only_b) == mcnemar(only_b, only_a) == p


def test_mcnemar_with_thousands_of_questions():
    assert 0 < mcnemar(900, 1200) < 1e-9
    normal = math.erfc((50 - 1) / math.sqrt(2450) / math.sqrt(2))  # with continuity correction
    assert mcnemar(1200, 1250) == pytest.approx(normal, rel=0.01)


def test_run_does_not_differ_from_itself():
    run = side("a", [0.0, 1.0] * 20)
    assert incomparable(run, run) == []
    result = compare(run, run)
    assert result["changed"] == []
    assert result["differences"]["official"] == {
        "a": 50, "b": 50, "difference": 0, "interval": [0, 0], "p": 1, "p_holm": 1, "error": 0, "scenes": 10,
            "kurtosis": None,
    }  # fmt: skip
    assert result["mcnemar"]["choices"] == {"n": 40, "only_a": 0, "only_b": 0, "p": 1, "p_holm": 1}


def test_swapping_runs_negates_differences():
    chance = random.Random(4)
    a, b = (side(name, [float(chance.random() < share) for _ in range(200)]) for name, share in (("a", 0.4), ("b", 0.7)))  # fmt: skip
    ours, theirs = compare(a, b), compare(b, a)
    for name, entry in ours["differences"].items():
        swapped = theirs["differences"][name]
        assert entry["difference"] == pytest.approx(-swapped["difference"])
        assert entry["interval"] == pytest.approx([-end for end in reversed(swapped["interval"])])
        assert entry["p"] == swapped["p"]
    assert ours["differences"]["official"]["p"] < 0.01
    test, opposite = ours["mcnemar"]["choices"], theirs["mcnemar"]["choices"]
    assert (test["only_a"], test["only_b"], test["p"]) == (opposite["only_b"], opposite["only_a"], opposite["p"])  # fmt: skip
    assert len(ours["changed"]) == test["only_a"] + test["only_b"]


def test_pairing_detects_differences_within_wide_intervals():
    """Scenes vary far more than runs: both intervals are wide, but the difference is significant."""
    random = np.random.default_rng(1)
    base = np.repeat(random.random(50), 4)
    a = side("a", (base * 0.8).tolist(), "object_counting")
    b = side("b", (base * 0.8 + 0.05).tolist(), "object_counting")
    entry = compare(a, b)["differences"]["official"]
    assert entry["difference"] == pytest.approx(5)
    assert entry["interval"] == pytest.approx([5, 5])
    assert entry["p"] == pytest.approx(0, abs=1e-9)
    assert "choices" not in compare(a, b)["mcnemar"]


@pytest.mark.parametrize("scenes", [2, 5, 6, 8, 30])
def test_few_scenes_give_no_small_p_values(scenes):
    a, b = (
        side(n, [score] * 4 * scenes, "object_counting") for n, score in (("a", 0.2), ("b", 0.9))
    )
    entry = compare(a, b)["differences"]["official"]
    sign_test = 2 * 0.5**scenes
    assert entry["p"] == (None if scenes < 6 else pytest.approx(sign_test))
    assert entry["interval"] == (None if scenes < 6 else pytest.approx([70, 70]))


def test_numbers_are_correct_from_half_a_score():
    a = side("a", [0.1, 0.4, 0.5, 1.0], "object_counting")
    b = side("b", [0.4, 0.6, 0.9, 0.3], "object_counting")
    changed = compare(a, b)["changed"]
    assert [entry["question_id"] for entry in changed] == ["1", "3"]
    assert changed[0]["a"] == {"answer": "A", "score": 0.4}


def test_reasons_for_incomparable_runs():
    a = side("a", [1.0] * 8)
    assert incomparable(a, side("b", [0.0] * 8, subset="tiny")) == [
        "--subset is 'full' in one and 'tiny' in the other"
    ]
    assert incomparable(a, side("b", [1.0] * 6)) == ["2 questions are in only one of the runs"]
    assert incomparable(a, side("b", [1.0] * 8, truth="B")) == [
        "8 questions have the same id but differ"
    ]
    partial = side("b", [1.0, None] * 4)
    sentence = "b is partial: it lacks scores for 4 questions that a has scored"
    assert incomparable(a, partial) == incomparable(partial, a) == [sentence]
    assert incomparable(partial, partial) == []
    assert compare(a, partial)["n"] == 4
    assert compare(a, side("b", [1.0] * 8, truth="B"))["n"] == 0
    assert compare(a, side("b", [], subset="tiny"))["differences"] == {}


@pytest.mark.slow
def test_intervals_of_differences_cover_zero_for_equal_runs():
    """For equally good runs, 95 % of intervals contain 0 and 5 % of p values are below 5 %."""
    chance = np.random.default_rng(11)
    trials, covered, quiet = 150, 0, 0
    for _ in range(trials):
        easy = np.repeat(chance.random(60), 4)
        a, b = (side(name, (chance.random(240) < easy).astype(float).tolist()) for name in "ab")
        entry = compare(a, b)["differences"]["official"]
        covered += entry["interval"][0] <= 0 <= entry["interval"][1]
        quiet += entry["p"] > 0.05
    assert covered / trials >= 0.89
    assert quiet / trials >= 0.89


def rung(name, tools, scores):
    """Return a run with these tools."""
    run = side(name, scores)
    totals = {"per_question": {"turns": 2.0, "renders": 1.0, "tokens_in": 5.0, "tokens_out": 1.0}}
    options = {"model": "m", **({} if tools == "none" else {"tools": tools})}
    return Side(name, {**run.results, "totals": totals}, options)


def test_ladder_gains_use_questions_scored_by_all_runs():
    low = rung("low", "none", [0.0] * 30 + [1.0] * 10)
    graph = rung("top", "graph", [1.0] * 40)
    middle = rung("middle", "measure", [0.0] * 20 + [1.0] * 20)
    middle.results["questions"][0]["score"] = None  # unscored in one run: excluded from all
    result = ladder([graph, low, middle])
    assert [entry["tools"] for entry in result["rungs"]] == ["none", "measure", "graph"]
    assert result["n"] == 39
    steps = result["types"]["route_planning"]
    assert steps["scores"] == pytest.approx([1000 / 39, 2000 / 39, 100])
    assert [gain["difference"] for gain in steps["gains"]] == pytest.approx([1000 / 39, 1900 / 39])
    assert all(gain["p_holm"] >= gain["p"] for gain in steps["gains"])
    assert [column.header for column in ladder_table(result).columns][-2:] == [
        "none → measure",
        "measure → graph",
    ]
    assert ladder([low, graph]) is not None


def test_no_ladder_if_runs_differ_in_other_options():
    low, measuring = rung("a", "none", [0.0] * 8), rung("b", "measure", [0.0] * 8)
    assert ladder([low]) is ladder([low, low]) is None
    assert ladder([low, Side("c", measuring.results, {**measuring.options, "model": "n"})]) is None
    assert ladder([low, rung("d", "brought", [0.0] * 8)]) is None
