"""The score by number of images seen."""

from dataclasses import replace

import pytest
from conftest import mostly_slow
from factories.runs import finish_run, make_config

from render_agent.report.comparison.compare_runs import compare_runs
from render_agent.report.pages.plots.run_plots import plot_images
from render_agent.runs.read import RunData
from render_agent.runs.runner import start_run


@pytest.fixture(scope="module", params=mostly_slow(["explorer", "seeker"], "explorer"))
def run(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    types = (
        "object_counting",
        "object_rel_distance",
        "object_rel_direction_easy",
        "route_planning",
    )
    started = start_run(make_config(folder, "rooms", model=request.param, max_turns=4, type=types))
    finish_run(started)
    return RunData(started.path)


def truncate_log(run, images):
    """Return the questions with every dialogue truncated after this many images."""
    states = []
    for state in run.states:
        number, num_images = 0, 0
        while number < len(state.turns) and num_images + len(state.turns[number].views) <= images:
            num_images += len(state.turns[number].views)
            number += 1
        states.append(replace(state, turns=state.turns[:number], max_turns=number))
    return states


def test_every_point_is_the_score_of_the_shortened_dialogues(run):
    points = run.saved_results["score_by_images"]
    assert points == run.results["score_by_images"]
    for point in points:
        states = truncate_log(run, point["images"])
        results = run.score(states)
        assert point["score"] == results["official_raw"]
        has_answer = any(state.answer is not None for state in states)
        assert point["interval"] == (results["intervals"]["official_raw"] if has_answer else None)
    assert points[-1]["score"] == run.results["official_raw"]
    assert points[-1]["ended"] == len(run.states)
    images = [point["images"] for point in points]
    assert images == sorted(set(images))


def test_no_interval_before_the_first_answer(run):
    states = [
        replace(s, turns=s.turns[:1], max_turns=1)
        for s in run.states
        if not s.turns[0].action.answer
    ]
    first = run.score(states)["score_by_images"][0]
    assert (first["score"], first["interval"]) == (0, None)


def test_compared_curves_are_over_the_shared_questions(run):
    ids = [state.id for state in run.states]
    without_last = run.select(ids[:-20], "less")
    without_first = run.select(ids[15:], "other")
    shared = run.score([state for state in run.states if state.id in ids[15:-20]])
    pairs = compare_runs([run, without_last, without_first], anyway=True, anyway_option="--anyway")
    curves = [curve for pair in pairs for curve in pair["score_by_images"].values()]
    assert curves == [shared["score_by_images"]] * 4
    (alone,) = compare_runs([run, run.select(ids, "same")], anyway_option="--anyway")
    assert alone["score_by_images"]["a"] == run.saved_results["score_by_images"]


def test_a_plot_has_a_row_for_every_point_of_every_run(run):
    points = run.results["score_by_images"]
    alone, two = plot_images({"": points}), plot_images({"A": points, "B": points})
    assert [row[0] for row in alone.rows] == [point["images"] for point in points]
    assert [row[:2] for row in two.rows] == [(x, p["images"]) for x in "AB" for p in points]
    assert len(alone.columns) == len(alone.rows[0])
    assert len(two.columns) == len(two.rows[0])
    assert plot_images({"A": points, "B": []}) is None
