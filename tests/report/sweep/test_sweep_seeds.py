"""Tests of sweeps over several seeds."""

import json

import pytest
import yaml
from click.testing import CliRunner
from factories import TREE
from factories.runs import make_questions

from render_agent.cli.main import cli
from render_agent.errors import UsageError
from render_agent.report.sweep.plan import read_sweep
from render_agent.runs.read import RunData, list_runs
from render_agent.score.comparison import Side, compare

EXAMPLE = TREE / "examples" / "choose.yaml"

RUNS = [
    {"label": "by chance", "agent": "lookahead:2", "verifier": "random"},
    {"label": "as many turns", "agent": "single"},
    {"label": "as many images", "agent": "single", "max_turns": 5},
]


def sweep(*words):
    """Run the command and return its JSON output."""
    done = CliRunner().invoke(cli, ["sweep", *map(str, words), "--json"])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """Return the output, the run folders and the file of a finished sweep over two seeds."""
    folder = tmp_path_factory.mktemp("seeds")
    options = {
        "benchmark": str(make_questions(folder, 6)),
        "engine": "scripted",
        "model": "wanderer",
        "temperature": 1,
        "image_size": "96x72",
        "max_turns": 3,
    }
    file = folder / "sweep.yaml"
    given = {"name": "small", "options": options, "seeds": [3, 5], "runs": RUNS}
    file.write_text(yaml.safe_dump(given, sort_keys=False))
    return sweep(file, "--output", folder), folder / "sweep_small", file


def runs_of(place, label, output):
    """Return the results of the runs of a row by seed, and the row."""
    row = next(row for row in output["cells"] if row["label"] == label)
    folders = [RunData(place / name) for name in row["runs"]]
    return {folder.config.seed: folder.saved_results for folder in folders}, row


def test_row_is_the_mean_over_seeds(done):
    output, place, _ = done
    assert [row["label"] for row in output["cells"]] == [run["label"] for run in RUNS]
    assert len(list_runs(place)) == 6
    for run in RUNS:
        found, row = runs_of(place, run["label"], output)
        assert found.keys() == {3, 5}
        mean = sum(results["official"] for results in found.values()) / 2
        assert row["official"] == pytest.approx(mean)
        assert (row["questions"], row["scored"], row["status"]) == (12, 12, "complete")
        for name in ("turns", "renders", "tokens_in", "tokens_out"):
            rows = [line[name] for results in found.values() for line in results["questions"]]
            assert row["per_question"][name] == pytest.approx(sum(rows) / 12)


def test_differences_are_paired_by_seed(done):
    output, place, _ = done
    base, _ = runs_of(place, "by chance", output)
    ours, row = runs_of(place, "as many turns", output)
    paired = [
        compare(Side("a", base[seed]), Side("b", ours[seed]))["differences"]["official"]
        for seed in (3, 5)
    ]
    assert row["difference"] == pytest.approx(sum(one["difference"] for one in paired) / 2)
    assert output["baseline"] == "by chance"


def test_row_with_a_missing_seed_is_unfinished(done, tmp_path):
    output, place, file = done
    given = yaml.safe_load(file.read_text())
    more = tmp_path / "sweep.yaml"
    more.write_text(yaml.safe_dump({**given, "seeds": [3, 5, 8]}, sort_keys=False))
    from render_agent.report.sweep.cells import find_cells
    from render_agent.report.sweep.table import sweep_rows

    asked = read_sweep(more, {}, place.parent)
    rows = sweep_rows(asked, find_cells(asked))
    assert {row["status"] for row in rows} == {"unfinished"}
    assert [row["official"] for row in rows] == [row["official"] for row in output["cells"]]
    with pytest.raises(UsageError, match=r"sweep.yaml: --seed .*\(by chance\)"):
        read_sweep(more, {"seed": 1}, place.parent)


@pytest.mark.slow
def test_example_choose_runs(tmp_path):
    few = tmp_path / "choose.yaml"
    given = yaml.safe_load(EXAMPLE.read_text("utf-8"))
    given["seeds"] = [0]
    given["options"] |= {"model": "wanderer", "image_size": "64x48", "max_turns": 2}
    few.write_text(yaml.safe_dump(given, sort_keys=False))
    output = sweep(few, "--output", tmp_path, "--scene", "room07", "--limit", 1)
    assert {row["status"] for row in output["cells"]} == {"complete"}
    assert len(output["cells"]) == len(given["runs"])
