import numpy as np
import pytest

from render_agent.score.means import AnswerScore, tally_scores
from render_agent.score.summary import score_figures
from render_agent.tasks.question_types import TYPES


def scores(**types):
    """Return one score per type, each in a separate scene."""
    return [AnswerScore(name, "d", name, score) for name, score in types.items()]


def test_overall_score_is_the_mean_of_eight_tasks():
    values = dict(zip(TYPES, [0.4, 0.3, 0.2, 0.1, 0.5, 0.9, 0.6, 0.3, 0.7, 0.8], strict=True))
    means = tally_scores(scores(**values)).means
    tasks = [0.4, 0.3, 0.2, 0.1, 0.5, (0.9 + 0.6 + 0.3) / 3, 0.7, 0.8]
    assert means["macro"] == pytest.approx(sum(tasks) / 8, abs=1e-15)
    assert means["without_order"] == pytest.approx(sum(tasks[:-1]) / 7, abs=1e-15)
    assert means["mean_of_types"] == pytest.approx(sum(values.values()) / 10, abs=1e-15)
    assert means["object_rel_direction"] == pytest.approx(0.6, abs=1e-15)
    assert {name: means[name] for name in TYPES} == values


def test_missing_tasks_do_not_count():
    means = tally_scores(scores(object_rel_direction_easy=1.0, object_counting=0.0)).means
    assert means["macro"] == 0.5
    order = tally_scores(scores(obj_appearance_order=1.0)).means
    assert order["macro"] == 1
    assert np.isnan(order["without_order"])


def test_tasks_have_equal_weight():
    scored = [AnswerScore("object_counting", "d", "s", 1.0)] * 99
    scored += [AnswerScore("route_planning", "d", "s", 0.0), AnswerScore("mine", "d", "s", 0.5)]
    tally = tally_scores(reversed(scored))
    assert tally.types == ("object_counting", "route_planning", "mine")
    assert tally.means["macro"] == tally.means["mean_of_types"] == 0.5
    assert tally.means["micro"] == 99.5 / 101


def test_means_without_scores_are_none():
    result = score_figures({"official": []})
    assert (result["n"], result["official"], result["micro"]) == (0, None, None)
    assert (result["types"], result["intervals"], result["debiased"]) == ({}, {}, None)


def test_scenes_are_distinguished_by_dataset():
    scores = [AnswerScore("object_counting", dataset, "1", 1.0) for dataset in "ab"]
    assert len(tally_scores(scores).sums) == 2


def test_summaries_by_dataset_and_debiased_subset():
    scored = [
        AnswerScore("object_counting", "a", "1", 1.0, pruned=True),
        AnswerScore("object_counting", "a", "2", 0.0, pruned=False),
        AnswerScore("object_counting", "b", "3", 0.5, pruned=False),
    ]
    result = score_figures({"official": scored})
    assert (result["official"], result["debiased"]["official"]) == (50, 25)
    assert {name: entry["official"] for name, entry in result["datasets"].items()} == {
        "a": 50,
        "b": 50,
    }
    assert result["debiased"]["n"] == 2
    unmarked = [AnswerScore("object_counting", "a", "1", 1.0)]
    assert score_figures({"official": unmarked})["debiased"] is None
