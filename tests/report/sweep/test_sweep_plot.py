"""Tests of the plot of a sweep."""

import json
import random
from xml.etree import ElementTree

import pytest
import yaml
from click.testing import CliRunner
from factories import TREE
from factories.runs import make_questions

from render_agent.cli.main import cli
from render_agent.report.pages.index.runs_page import SWEEP_PLOT, write_runs_page
from render_agent.report.sweep.cells import find_cells
from render_agent.report.sweep.plan import read_sweep
from render_agent.report.sweep.plot import draw_curves, find_curves, write_sweep_plot
from render_agent.report.sweep.table import sweep_rows

TEXT = "{http://www.w3.org/2000/svg}text"

HISTORY = {"history": ["all", "10", "2"]}
FEEDBACK = {"feedback": ["on", "off"]}


def write(folder, **keys):
    """Write a sweep file over small questions and return its path."""
    options = {"benchmark": str(make_questions(folder, 4)), "engine": "scripted", "max_turns": 3}
    file = folder / "sweep.yaml"
    content = {"name": "s", "options": options | {"image_size": "96x72"}, **keys}
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    return file


def made(folder, **keys):
    """Return the sweep of a file, and made figures of its rows."""
    plan = read_sweep(write(folder, **keys), {}, folder)
    figures = {"status": "complete", "official_interval": [0, 100]}
    rows = [{"label": label, "official": 10.0 * n, **figures} for n, label in enumerate(plan.rows)]
    return plan, rows


def texts(svg):
    return [element.text for element in ElementTree.fromstring(svg).iter(TEXT)]


@pytest.mark.parametrize("grid", [HISTORY, HISTORY | FEEDBACK, FEEDBACK | HISTORY])
def test_numbers_ascend_and_all_is_last(tmp_path, grid):
    plan, rows = made(tmp_path, grid=grid)
    random.Random(0).shuffle(rows)
    curves = find_curves(plan, rows)
    assert (curves.option, curves.values) == ("history", ["2", "10", "all"])
    assert set(curves.rows) == ({"feedback=on", "feedback=off"} if len(grid) > 1 else {""})
    assert sum(len(points) for points in curves.rows.values()) == len(rows)
    for label, points in curves.rows.items():
        for value, row in points.items():
            assert f"history={value}" in row["label"]
            assert label in row["label"]
    drawn = texts(draw_curves(curves, "Sweep s"))
    assert [text for text in drawn if text in curves.values] == curves.values
    assert {"--history", "Sweep s"} <= set(drawn)
    assert (len(grid) > 1) == ("feedback=off" in drawn)


def test_option_with_the_most_values_is_the_axis(tmp_path):
    grid = {"max_turns": [2, 3, 4], "history": ["1", "2", "3", "all"]}
    curves = find_curves(*made(tmp_path, grid=grid))
    assert (curves.option, len(curves.rows)) == ("history", 3)


def test_sweeps_in_the_docs_plot_the_score_over_history(tmp_path):
    text = (TREE / "docs" / "explanation" / "exploration.md").read_text("utf-8")
    (tmp_path / "docs.yaml").write_text(text.split("```yaml\n")[1].split("```")[0])
    for file, count in ((TREE / "examples" / "history.yaml", 1), (tmp_path / "docs.yaml", 2)):
        plan = read_sweep(file, {}, tmp_path)
        rows = [{"label": label} for label in plan.rows]
        curves = find_curves(plan, rows)
        assert (curves.option, curves.values) == ("history", ["1", "2", "4", "8", "all"])
        assert [len(points) for points in curves.rows.values()] == [5] * count


def test_another_run_is_a_point_beside_the_curve(tmp_path):
    plan, rows = made(tmp_path, grid=HISTORY, runs=[{"label": "fixed", "views": "tour"}])
    curves = find_curves(plan, rows)
    assert {label: len(points) for label, points in curves.rows.items()} == {
        "views=free": 3,
        "views=tour": 1,
    }


@pytest.mark.parametrize(
    "keys",
    [
        {"grid": FEEDBACK},
        {"grid": {"history": ["1", "all"]}},
        {"grid": {"seed": [1, 2, 3]}},
        # max_turns never varies alone
        {
            "runs": [
                {"views": v, "max_turns": n} for n, v in enumerate(["free", "tour", "start"], 2)
            ]
        },
    ],
)
def test_rows_without_a_curve_are_named(tmp_path, keys):
    plan, rows = made(tmp_path, **keys)
    assert find_curves(plan, rows) is None
    drawn = texts(write_sweep_plot(plan, rows).read_text())
    assert {row["label"] for row in rows} <= set(drawn)


def test_only_complete_rows_are_plotted(tmp_path):
    plan, rows = made(tmp_path, grid=HISTORY)
    for row in rows:
        row["status"] = "unfinished"
    assert write_sweep_plot(plan, rows) is None
    rows[0]["status"] = "complete"
    drawn = texts(write_sweep_plot(plan, rows).read_text())
    assert rows[0]["label"] in drawn
    assert rows[1]["label"] not in drawn


def test_command_plots_its_table(tmp_path):
    file = write(tmp_path, grid=HISTORY, seeds=[1, 2])
    words = ["sweep", str(file), "--output", str(tmp_path), "--json"]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output
    plot = tmp_path / "sweep_s" / SWEEP_PLOT
    assert json.loads(done.stdout)["plot"] == str(plot)
    assert str(plot) in done.stderr
    before = plot.read_bytes()
    plan = read_sweep(file, {}, tmp_path)
    rows = sweep_rows(plan, find_cells(plan))
    assert len(rows) == 3
    assert write_sweep_plot(plan, rows).read_bytes() == before
    assert f"../{SWEEP_PLOT}" in write_runs_page(plot.parent).read_text("utf-8")
