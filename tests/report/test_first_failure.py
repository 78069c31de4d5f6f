"""Tests of the diagnosis of beliefs, with policies that have one known fault each."""

import json
import re
from functools import cache

import numpy as np
import pytest
from conftest import mostly_slow
from factories.believers import FAULTS, run_policy
from factories.reports import question_html

import render_agent
from render_agent.parts.beliefs.belief_figures import LABELS
from render_agent.report.diagnosis.diagnose import diagnose_run
from render_agent.report.diagnosis.model import Cause
from render_agent.report.pages.maps.floor_plan import bare_plan, camera_poses
from render_agent.report.pages.plots import run_plots, svg
from render_agent.report.pages.question.question_view import QuestionView
from render_agent.runs.log.row import row_of
from render_agent.runs.read import RunData

# several question types about one room; the views never suffice for one of the questions
OPTIONS = {
    "id": ("74", "84", "85", "79", "92", "83"),
    "image_size": (160, 120),
    "start": "middle",
    "probe": ("map", "seen"),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Return a function that gives the figures and the run of a policy, cached."""

    @cache
    def cached_run(name):
        folder = tmp_path_factory.mktemp(name)
        figures = run_policy(name, folder, **OPTIONS)
        (path,) = (folder / name).iterdir()
        return figures, RunData(path)

    return cached_run


@pytest.mark.parametrize("name", mostly_slow(FAULTS, "misperceiver", "misreasoner"))
def test_each_fault_gets_its_cause(runs, name):
    figures, _ = runs(name)
    assert figures["right"] == figures["expected"] >= 5
    assert figures["branches"].get(str(FAULTS[name][1]), 0) >= 5
    low, high = {"believer": (100, 100), "misreasoner": (100, 100)}.get(name, (0, 60))
    assert low <= figures["seen_found"] <= high


def test_question_page_draws_every_map_on_the_floor_plan(runs, tmp_path):
    _, folder = runs("misperceiver")
    state = next(state for state in folder.states if state.id == "85")
    diagnosis = diagnose_run(folder, 1, [state])["85"]
    plan = bare_plan(camera_poses(state), diagnosis)
    part = QuestionView(state, row_of(state), diagnosis, plan, folder.parts)
    page = question_html({"name": "run", "stamps": [], "notes": []}, part)
    svgs = re.findall(
        r'<svg viewBox="0 0 800 600" role="img" aria-label="After turn .*?</svg>', page, re.DOTALL
    )
    (section,) = part.sections
    assert len(svgs) == len(state.turns) == len(section.maps) >= 2
    assert f"{Cause.PERCEPTION.capitalize()}. " in page
    last = section.maps[-1]
    objects = json.loads(last.reply)["objects"]
    assert len(objects) == len(last.believed) > 3
    assert svgs[-1].count("<text") == len(objects)
    pixels = np.array([plan.pixel((*entry["position"], 0.0)) for entry in objects])
    assert {mark.outcome for mark in last.believed} <= {"found", "doubled", "invented"}
    inside = {(mark.name, mark.position): mark.pixel for mark in last.believed if not mark.outside}
    for entry, pixel in zip(objects, pixels, strict=True):
        if (key := (entry["category"], tuple(entry["position"]))) in inside:
            assert inside[key] == pytest.approx(pixel)
    assert sum(box.is_on_map for box in last.true) == sum(
        mark.outcome == "found" for mark in last.believed
    )


def test_report_plots_beliefs(runs, plots, monkeypatch):
    _, folder = runs("misreasoner")
    monkeypatch.setattr(svg, "render_plot", plots)
    plots = {plot.name: plot for plot in run_plots.run_plots(folder, diagnose_run(folder, 1))}
    assert list(plots) == ["turns", "images", "causes", "seen", "coverage", "beliefs", "time"]
    causes = [dict(zip(plots["causes"].columns, row, strict=True)) for row in plots["causes"].rows]
    assert sum(row["reasoning"] for row in causes) >= 5
    assert all(plot.svg.rstrip().endswith("</svg>") for plot in plots.values())


def test_diagnose_prints_beliefs(runs, type_in):
    _, folder = runs("misreasoner")
    code, out, _ = type_in("diagnose", folder.path, "--json", folder=folder.path)
    assert code == 0
    figures = json.loads(out)
    beliefs = figures["beliefs"]
    assert figures["all"]["causes"]["reasoning"] >= 5
    assert beliefs["own_answer"]["value"] > 80
    assert beliefs["answer"]["value"] == 0


def test_compare_includes_beliefs(runs, type_in, tmp_path):
    folders = [runs(name)[1] for name in ("misreasoner", "misperceiver")]
    arguments = (
        "compare",
        *(folder.path for folder in folders),
        "--page",
        tmp_path,
        "--no-diagnosis",
    )
    code, out, err = type_in(*arguments, "--json", folder=tmp_path)
    assert code == 0, err
    beliefs = json.loads(out)["beliefs"]
    assert beliefs["right"]["a"] == 100
    assert beliefs["right"]["difference"] == pytest.approx(beliefs["right"]["b"] - 100)
    assert beliefs["right"]["difference"] <= -60
    assert 4 <= beliefs["right"]["n"] <= beliefs["found"]["n"] <= len(OPTIONS["id"])
    from_python = render_agent.load_run(folders[0].path).compare(folders[1].path).found["beliefs"]
    differences = {name: entry["difference"] for name, entry in from_python.items()}
    assert differences == {name: entry["difference"] for name, entry in beliefs.items()}
    page = (tmp_path / "index.html").read_text()
    assert all(f'<th scope="row">{LABELS[name]}</th>' in page for name in beliefs)
    code, out, _ = type_in(*arguments[:3], folder=tmp_path)
    assert all(LABELS[name] in out for name in beliefs)


def test_black_images_give_an_empty_map(tmp_path):
    figures = run_policy(
        "believer", tmp_path, id=("9", "13"), image_size=(64, 48), image_stress="black"
    )
    assert (figures["found"], figures["invented"], figures["seen"]) == (0, None, 0)
