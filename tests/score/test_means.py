import numpy as np
import pytest

from render_agent.score.means import Scored, intervals, resampled_means, tally
from render_agent.score.official import TYPES
from render_agent.score.summary import figures, summary


def scores(**types):
    """One question a type, each in a scene of its own."""
    return [Scored(name, "d", name, score) for name, score in types.items()]


def test_the_overall_score_is_the_mean_of_eight_tasks():
    values = dict(zip(TYPES, [0.4, 0.3, 0.2, 0.1, 0.5, 0.9, 0.6, 0.3, 0.7, 0.8], strict=True))
    means = tally(scores(**values)).means
    tasks = [0.4, 0.3, 0.2, 0.1, 0.5, (0.9 + 0.6 + 0.3) / 3, 0.7, 0.8]
    assert means["macro"] == pytest.approx(sum(tasks) / 8, abs=1e-15)
    assert means["without_order"] == pytest.approx(sum(tasks[:-1]) / 7, abs=1e-15)
    assert means["mean_of_types"] == pytest.approx(sum(values.values()) / 10, abs=1e-15)
    assert means["object_rel_direction"] == pytest.approx(0.6, abs=1e-15)
    assert {name: means[name] for name in TYPES} == values


def test_a_task_that_was_not_asked_does_not_count():
    means = tally(scores(object_rel_direction_easy=1.0, object_counting=0.0)).means
    assert means["macro"] == 0.5
    order = tally(scores(obj_appearance_order=1.0)).means
    assert order["macro"] == 1
    assert np.isnan(order["without_order"])


def test_a_task_weighs_the_same_however_many_questions_it_has():
    scored = [Scored("object_counting", "d", "s", 1.0)] * 99
    scored += [Scored("route_planning", "d", "s", 0.0), Scored("mine", "d", "s", 0.5)]
    counted = tally(reversed(scored))
    assert counted.types == ("object_counting", "route_planning", "mine")
    assert counted.means["macro"] == counted.means["mean_of_types"] == 0.5
    assert counted.means["micro"] == 99.5 / 101


def test_nothing_scored_has_no_figure():
    found = figures([])
    assert (found["n"], found["official"], found["micro"]) == (0, None, None)
    assert (found["types"], found["intervals"], found["debiased"]) == ({}, {}, None)


def test_scenes_of_one_name_in_two_data_sets_are_two():
    both = [Scored("object_counting", dataset, "1", 1.0) for dataset in "ab"]
    assert len(tally(both).sums) == 2


def test_data_sets_and_the_debiased_subset_are_summed_apart():
    scored = [
        Scored("object_counting", "a", "1", 1.0, pruned=True),
        Scored("object_counting", "a", "2", 0.0, pruned=False),
        Scored("object_counting", "b", "3", 0.5, pruned=False),
    ]
    found = figures(scored)
    assert (found["official"], found["debiased"]["official"]) == (50, 25)
    assert {name: one["official"] for name, one in found["datasets"].items()} == {"a": 50, "b": 50}
    assert found["debiased"]["n"] == 2
    assert figures([Scored("object_counting", "a", "1", 1.0)])["debiased"] is None


def test_one_scene_tells_nothing_of_the_spread():
    one = [Scored("object_counting", "d", "s", score) for score in (0.0, 1.0)]
    assert set(intervals(tally(one)).values()) == {None}
    two = [*one, Scored("route_planning", "d", "t", 1.0)]
    assert intervals(tally(two))["object_counting"] is None
    assert intervals(tally(two))["macro"] == (0.5, 1.0)


def test_intervals_depend_on_the_seed_alone_and_hold_the_figure():
    random = np.random.default_rng(2)
    scored = [
        Scored(name, "d", str(scene), float(random.random() < 0.3 + 0.4 * (scene % 2)))
        for scene in range(60)
        for name in TYPES
    ]
    counted, again = tally(scored), tally(reversed(scored))
    assert intervals(counted) == intervals(again)
    assert intervals(counted, seed=1) != intervals(counted)
    found = summary(scored, "macro")
    for name, (low, high) in found["intervals"].items():
        assert low < 100 * counted.means[name] < high


def test_resampled_means_are_means_of_whole_scenes():
    scored = [Scored("object_counting", "d", str(scene), scene) for scene in (0, 0, 0, 1)]
    drawn = resampled_means(tally(scored), resamples=500)["micro"]
    # a draw of two scenes holds three questions of 0, or one of 1, or both, or either twice
    assert set(drawn.round(9).tolist()) == {0.0, 0.25, 1.0}


def test_intervals_cover_the_truth_nineteen_times_in_twenty():
    """Scenes differ in difficulty, so questions of one are not independent; scenes are."""
    random = np.random.default_rng(7)
    kinds = ["object_counting", "object_rel_direction_easy", "object_rel_direction_hard"]
    expected = {"object_counting": 0.5, "object_rel_direction": 0.5, "macro": 0.5, "micro": 0.5}
    trials, covered = 300, dict.fromkeys(expected, 0)
    for trial in range(trials):
        easy = random.random(80)
        scored = [
            Scored(kind, "d", str(scene), float(random.random() < easy[scene]))
            for scene in range(80)
            for kind in kinds
            for _ in range(4)
        ]
        found = intervals(tally(scored), seed=trial, resamples=400)
        for name, truth in expected.items():
            low, high = found[name]
            covered[name] += low <= truth <= high
    for name, times in covered.items():
        assert 0.90 <= times / trials <= 0.99, name
