"""Tests of the plot of runs."""

import json
import random
from xml.etree import ElementTree

import pytest
from factories import TREE
from factories.sweeps import sweep, write_sweep

from render_agent.cli.commands.sweep.plan import find_cells, read_sweep
from render_agent.report.comparison.runs_plot import draw_curves, find_curves, write_runs_plot
from render_agent.report.comparison.runs_table import run_rows
from render_agent.report.pages.index.runs_page import SWEEP_PLOT, write_runs_page

TEXT = "{http://www.w3.org/2000/svg}text"

HISTORY = {"history": ["all", "10", "2"]}
FEEDBACK = {"feedback": ["on", "off"]}


def rows_of(file, folder):
    """Return the rows of a sweep, with made figures."""
    groups = read_sweep(file, {}, folder).groups({})
    figures = {"status": "complete", "official_raw_interval": [0, 100]}
    return [
        row | figures | {"official_raw": 10.0 * number}
        for number, row in enumerate(run_rows(groups, ""))
    ]


def written_rows(folder, **keys):
    """Return the rows of a written sweep, with made figures."""
    return rows_of(write_sweep(folder, name="s", **keys), folder)


def texts(svg):
    return [element.text for element in ElementTree.fromstring(svg).iter(TEXT)]


@pytest.mark.parametrize("grid", [HISTORY, HISTORY | FEEDBACK, FEEDBACK | HISTORY])
def test_numbers_ascend_and_all_is_last(tmp_path, grid):
    rows = written_rows(tmp_path, grid=grid)
    random.Random(0).shuffle(rows)
    curves = find_curves(rows)
    assert (curves.option, curves.values) == ("history", ["2", "10", "all"])
    assert set(curves.rows) == ({"feedback=on", "feedback=off"} if len(grid) > 1 else {""})
    assert sum(len(points) for points in curves.rows.values()) == len(rows)
    for label, points in curves.rows.items():
        for value, row in points.items():
            assert f"history={value}" in row["label"]
            assert label in row["label"]
    labels = texts(draw_curves(curves, "Sweep s"))
    assert [text for text in labels if text in curves.values] == curves.values
    assert {"--history", "Sweep s"} <= set(labels)
    assert (len(grid) > 1) == ("feedback=off" in labels)


def test_option_with_the_most_values_is_the_axis(tmp_path):
    grid = {"max_turns": [2, 3, 4], "history": ["1", "2", "3", "all"]}
    curves = find_curves(written_rows(tmp_path, grid=grid))
    assert (curves.option, len(curves.rows)) == ("history", 3)


def test_sweeps_in_the_docs_plot_the_score_over_history(tmp_path):
    text = (TREE / "docs" / "explanation" / "exploration.md").read_text("utf-8")
    (tmp_path / "docs.yaml").write_text(text.split("```yaml\n")[1].split("```")[0])
    for file, count in ((TREE / "examples" / "history.yaml", 1), (tmp_path / "docs.yaml", 2)):
        curves = find_curves(rows_of(file, tmp_path))
        assert (curves.option, curves.values) == ("history", ["1", "2", "4", "8", "all"])
        assert [len(points) for points in curves.rows.values()] == [5] * count


@pytest.mark.parametrize(
    ("option", "values", "numbers", "unit", "points"),
    [
        (
            "tools",
            ["measure:noise=0.2", "measure:noise=.1", "measure"],
            ["0", ".1", "0.2"],
            "measure:noise",
            {"": 3},
        ),
        (
            "tools",
            ["graph", "graph:wrong=20%", "graph:wrong=5%"],
            ["0", "5", "20"],
            "graph:wrong (%)",
            {"": 3},
        ),
        ("feedback", ["drift:0.05", "on", "drift:0.2"], ["0", "0.05", "0.2"], "drift", {"": 3}),
        (
            "tools",
            ["measure", "measure:noise=0.1", "measure:bias=0.1", "measure:bias=0.2"],
            ["0", "0.1", "0.2"],
            "",
            {"measure:noise": 2, "measure:bias": 3},
        ),
        (
            "tools",
            ["measure", "measure:noise=0.1", "measure:noise=0.2", "measure:noise=0.1:silent"],
            ["0", "0.1", "0.2"],
            "",
            {"measure:noise": 3, "measure:noise:silent": 2},
        ),
    ],
)
def test_errors_of_instruments_are_numbers(tmp_path, option, values, numbers, unit, points):
    curves = find_curves(written_rows(tmp_path, grid={option: values}))
    assert (curves.option, curves.values, curves.unit) == (option, numbers, unit)
    assert {label: len(rows) for label, rows in curves.rows.items()} == points
    assert f"--{option} {unit}".strip() in texts(draw_curves(curves, ""))


def test_another_run_is_a_point_beside_the_curve(tmp_path):
    rows = written_rows(tmp_path, grid=HISTORY, runs=[{"label": "fixed", "views": "tour"}])
    curves = find_curves(rows)
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
    rows = written_rows(tmp_path, **keys)
    assert find_curves(rows) is None
    labels = texts(write_runs_plot(rows, "s", tmp_path / "s.svg").read_text())
    assert {row["label"] for row in rows} <= set(labels)


def test_only_complete_rows_are_plotted(tmp_path):
    rows = written_rows(tmp_path, grid=HISTORY)
    for row in rows:
        row["status"] = "interrupted"
    assert write_runs_plot(rows, "s", tmp_path / "s.svg") is None
    rows[0]["status"] = "complete"
    labels = texts(write_runs_plot(rows, "s", tmp_path / "s.svg").read_text())
    assert rows[0]["label"] in labels
    assert rows[1]["label"] not in labels


def test_command_plots_its_table(tmp_path):
    file = write_sweep(tmp_path, grid=HISTORY, seeds=[1, 2])
    output = json.loads(sweep(file, "--output", tmp_path, "--json"))
    plot = tmp_path / "sweep_small" / SWEEP_PLOT
    assert output["plot"] == str(plot)
    before = plot.read_bytes()
    plan = read_sweep(file, {}, tmp_path)
    rows = run_rows(plan.groups(find_cells(plan)), plan.baseline)
    assert len(rows) == 3
    assert write_runs_plot(rows, plan.title, tmp_path / "s.svg").read_bytes() == before
    assert f"../{SWEEP_PLOT}" in write_runs_page(plot.parent).read_text("utf-8")
