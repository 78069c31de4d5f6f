"""Pages of questions whose answer is a pose: target beside reached view, errors by turn, shortest path, comparison."""

import json
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from factories.reports import build_index, run_rooms
from factories.views import SIZE, view_questions

import render_agent
from render_agent.report.comparison.compare_runs import compare_runs
from render_agent.report.pages.maps.floor_plan import FloorPlanCache
from render_agent.report.pages.plots.run_plots import plot_target_errors
from render_agent.runs.read import RunData
from render_agent.scans.free_space.shortest_path import ShortestPaths
from render_agent.score.dialogues.reached_views import MEASURES, path_taken


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The same targets with the camera staying, and after a random walk."""
    folder = tmp_path_factory.mktemp("targets")
    options = {"benchmark": view_questions(folder), "image_size": SIZE, "max_turns": 4}
    return {
        model: RunData(
            render_agent.run(engine="scripted", model=model, output=folder / model, **options).path
        )
        for model in ("stay", "wanderer")
    }


@pytest.fixture(scope="module")
def report(runs):
    return build_index(runs["wanderer"])


def page(report, question):
    return (report.parent / "questions" / f"{question}.html").read_text("utf-8")


def test_target_and_reached_view_are_side_by_side(runs, report):
    for state in runs["wanderer"].states:
        section = re.search(r'<section class="reached".*?</section>', page(report, state.id), re.S)[
            0
        ]
        files = re.findall(r'<img src="\.\./\.\./([^"]+)"', section)
        assert files == [state.views[0].file, state.target_errors[-1].view.file]
        assert all((runs["wanderer"].path / file).is_file() for file in files)
        rows = re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', section)
        assert [name for name, _ in rows] == ["start", "1", "2", "3", "4"]
        for (_, cells), error in zip(rows, state.target_errors, strict=True):
            numbers = [float(n) for n in re.findall(r'class="number">([^<]+)<', cells)]
            expected = [error.position, error.path, error.heading, error.pitch, 100 * error.overlap]
            assert numbers == pytest.approx(expected, abs=0.5)
            assert numbers[:2] == pytest.approx(expected[:2], abs=0.006)


def test_shortest_path_is_drawn_from_start_to_target(runs, report):
    run = runs["wanderer"]
    plans = FloorPlanCache(report.parent, run.scenes, run.states)
    for state in run.states:
        group = re.search(r'<g class="target">.*?</g>', page(report, state.id), re.S)[0]
        svg = ElementTree.fromstring(group)
        plan = plans.of(state)
        goal = [float(value) for value in state.question.ground_truth.split()][:3]
        start = state.turns[0].camera_before.position
        path = ShortestPaths(run.scenes.space(state.question), goal).waypoints(start)
        circle = svg.find("circle")
        drawn = float(circle.get("cx")), float(circle.get("cy"))
        assert drawn == pytest.approx(plan.pixel(goal), abs=0.06)
        line = svg.findall("polyline")
        if state.id == "rotation":  # the target is at the start
            assert line == []
            continue
        points = [tuple(map(float, p.split(","))) for p in line[-1].get("points").split()]
        assert np.array(points) == pytest.approx(np.array([plan.pixel(p) for p in path]), abs=0.06)
        assert (len(points) > 2) == (state.id == "far")
    plans.close()


def test_index_has_success_by_tier_and_the_errors_by_turn(runs, report):
    text = report.read_text("utf-8")
    for tier in ("rotation", "translation", "near", "far"):
        assert f"reach the view, {tier}" in text
    assert (report.parent / "plots" / "target-errors.svg").is_file()
    plot = plot_target_errors(runs["wanderer"].results)
    assert [row[0] for row in plot.rows] == [0, 1, 2, 3, 4]
    last = [state.target_errors[-1] for state in runs["wanderer"].states]
    assert float(plot.rows[-1][3]) == pytest.approx(np.mean([e.position for e in last]), abs=0.06)
    assert float(plot.rows[-1][4]) == pytest.approx(np.mean([e.heading for e in last]), abs=0.06)


def test_comparison_pairs_the_measures(runs):
    (pair,) = compare_runs([runs["stay"], runs["wanderer"]], anyway_option="anyway")
    entries = pair["views"]
    assert entries.keys() == MEASURES.keys()
    for name, value in {
        "position_metres": lambda e: e[-1].position,
        "overlap": lambda e: 100 * e[-1].overlap,
    }.items():
        sides = [[value(state.target_errors) for state in run.states] for run in runs.values()]
        assert entries[name]["a"] == pytest.approx(np.mean(sides[0]))
        assert entries[name]["difference"] == pytest.approx(np.mean(np.subtract(*sides[::-1])))
        assert entries[name]["n"] == 4
    assert entries["spl"]["n"] == 3
    assert all(path_taken(state.target_errors) == 0 for state in runs["stay"].states)


def test_other_reports_have_no_target(tmp_path):
    run = run_rooms(tmp_path, scene=("room00",), limit=2, max_turns=2)
    report = build_index(run)
    assert "views" not in run.results
    assert not (report.parent / "plots" / "target-errors.svg").exists()
    assert 'class="reached"' not in page(report, "0")
    assert "target_errors" not in json.loads((run.path / "turns.jsonl").read_text().splitlines()[0])
