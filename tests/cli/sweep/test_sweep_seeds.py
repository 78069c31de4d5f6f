"""Tests of sweeps over several seeds."""

import json

import pytest
import yaml
from factories import TREE
from factories.sweeps import sweep, write_sweep

from render_agent.cli.commands.sweep.plan import find_cells, read_sweep
from render_agent.errors import UsageError
from render_agent.report.comparison.runs_table import run_rows
from render_agent.runs.read import RunData, list_runs
from render_agent.score.comparison import Side, compare

EXAMPLE = TREE / "examples" / "choose.yaml"

RUNS = [
    {"label": "by chance", "agent": "lookahead:2", "verifier": "random"},
    {"label": "as many turns", "agent": "single"},
    {"label": "as many images", "agent": "single", "max_turns": 5},
]


def run_sweep(*arguments):
    return json.loads(sweep(*arguments, "--json"))


@pytest.fixture(scope="module")
def finished_sweep(tmp_path_factory):
    """Return the output, the run folders and the file of a finished sweep over two seeds."""
    folder = tmp_path_factory.mktemp("seeds")
    options = {"model": "wanderer", "temperature": 1}
    file = write_sweep(folder, count=6, options=options, seeds=[3, 5], runs=RUNS)
    return run_sweep(file, "--output", folder), folder / "sweep_small", file


def runs_of(sweep_folder, label, output):
    """Return the results of the runs of a row by seed, and the row."""
    row = next(row for row in output["cells"] if row["label"] == label)
    runs = [RunData(sweep_folder / name) for name in row["runs"]]
    return {folder.config.seed: folder.saved_results for folder in runs}, row


def test_row_is_the_mean_over_seeds(finished_sweep):
    output, folder, _ = finished_sweep
    assert [row["label"] for row in output["cells"]] == [run["label"] for run in RUNS]
    assert len(list_runs(folder)) == 6
    for run in RUNS:
        results_by_seed, row = runs_of(folder, run["label"], output)
        assert results_by_seed.keys() == {3, 5}
        mean = sum(results["official_raw"] for results in results_by_seed.values()) / 2
        assert row["official_raw"] == pytest.approx(mean)
        assert (row["questions"], row["scored"], row["status"]) == (12, 12, "complete")
        for name in ("turns", "renders", "tokens_in", "tokens_out"):
            rows = [
                line[name] for results in results_by_seed.values() for line in results["questions"]
            ]
            assert row["per_question"][name] == pytest.approx(sum(rows) / 12)


def test_differences_are_paired_by_seed(finished_sweep):
    output, folder, _ = finished_sweep
    baseline, _ = runs_of(folder, "by chance", output)
    ours, row = runs_of(folder, "as many turns", output)
    comparisons = [
        compare(Side("a", baseline[seed]), Side("b", ours[seed]))["differences"]["official_raw"]
        for seed in (3, 5)
    ]
    assert row["difference"] == pytest.approx(
        sum(comparison["difference"] for comparison in comparisons) / 2
    )
    assert output["baseline"] == "by chance"


def test_row_with_a_missing_seed_is_interrupted(finished_sweep, tmp_path):
    output, folder, file = finished_sweep
    content = yaml.safe_load(file.read_text())
    extended = tmp_path / "sweep.yaml"
    extended.write_text(yaml.safe_dump({**content, "seeds": [3, 5, 8]}, sort_keys=False))
    plan = read_sweep(extended, {}, folder.parent)
    rows = run_rows(plan.groups(find_cells(plan)), plan.baseline)
    assert {row["status"] for row in rows} == {"interrupted"}
    assert [row["official_raw"] for row in rows] == [row["official_raw"] for row in output["cells"]]
    with pytest.raises(UsageError, match=r"sweep.yaml: --seed .*\(by chance\)"):
        read_sweep(extended, {"seed": 1}, folder.parent)


@pytest.mark.slow
def test_example_choose_runs(tmp_path):
    file = tmp_path / "choose.yaml"
    content = yaml.safe_load(EXAMPLE.read_text("utf-8"))
    content["seeds"] = [0]
    content["options"] |= {"model": "wanderer", "image_size": "64x48", "max_turns": 2}
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    output = run_sweep(file, "--output", tmp_path, "--scene", "room07", "--limit", 1)
    assert {row["status"] for row in output["cells"]} == {"complete"}
    assert len(output["cells"]) == len(content["runs"])
