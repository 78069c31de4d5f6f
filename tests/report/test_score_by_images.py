"""The score by number of images seen."""

from dataclasses import replace

import pytest
from factories.runs import NullObserver, make_config

from render_agent.report.pages.plots.run_plots import images_seen
from render_agent.report.score_by_images import score_by_images
from render_agent.runs.read import RunData
from render_agent.runs.runner import start_run


@pytest.fixture(scope="module", params=["explorer", "seeker"])
def run(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    started = start_run(make_config(folder, "rooms", engine="scripted", model=request.param))
    try:
        started.go(NullObserver())
    finally:
        started.close()
    return RunData(started.path)


def cut(run, images):
    """Return the questions as if every dialogue had ended after this many images."""
    states = []
    for state in run.states:
        number, seen = 0, 0
        while number < len(state.turns) and seen + len(state.turns[number].views) <= images:
            seen += len(state.turns[number].views)
            number += 1
        states.append(replace(state, turns=state.turns[:number], max_turns=number))
    return states


def test_every_point_is_the_score_of_the_shortened_dialogues(run):
    points = score_by_images(run)
    for point in points:
        results = run.score(cut(run, point.images))
        assert point.score == results["official_over_scored"]["score"]
        assert point.interval == results["intervals"]["official"]
    assert points[-1].score == run.results["official_over_scored"]["score"]
    assert points[-1].ended == len(run.states)
    assert [point.images for point in points] == sorted({point.images for point in points})


def test_a_plot_has_a_row_for_every_point_of_every_run(run):
    points = score_by_images(run)
    alone, two = images_seen({"": run}), images_seen({"A": run, "B": run})
    assert [row[0] for row in alone.rows] == [point.images for point in points]
    assert [row[:2] for row in two.rows] == [(x, p.images) for x in "AB" for p in points]
    assert len(alone.columns) == len(alone.rows[0])
    assert len(two.columns) == len(two.rows[0])
