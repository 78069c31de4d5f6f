"""Tests of sweeps: parsing of the file, reuse of existing runs, and the table."""

import json
import shutil

import pytest
import yaml
from click.testing import CliRunner
from factories import TREE
from factories.runs import make_config, make_questions, play, spread_over_rooms, walking_engine

from render_agent.cli.commands import run as run_commands
from render_agent.cli.main import cli
from render_agent.errors import EngineError, SetupError, UsageError
from render_agent.report.sweep.plan import Sweep, SweepRun, read_sweep
from render_agent.report.sweep.table import sweep_rows
from render_agent.runs.read import RunData, list_runs
from render_agent.score.comparison import Side, compare

EXAMPLE = TREE / "examples" / "views.yaml"


def write(folder, *, count=4, **more):
    """Write a sweep file over small questions and return its path."""
    options = {
        "benchmark": str(make_questions(folder, count)),
        "engine": "scripted",
        "image_size": "96x72",
        "max_turns": 3,
    }
    given = {"name": "small", "options": options | more.pop("options", {}), **more}
    file = folder / "sweep.yaml"
    file.write_text(yaml.safe_dump(given, sort_keys=False))
    return file


GRID = {"model": ["random", "explorer"], "views": ["free", "none"]}


def sweep(*words, code=0):
    """Run the command and return its standard output."""
    done = CliRunner().invoke(cli, ["sweep", *map(str, words)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.output
    return done.stdout


def table(file, output, *more):
    """Run a sweep and return its rows."""
    return json.loads(sweep(file, "--output", output, "--json", *more))["cells"]


def turns(place):
    """Return the content and modification time of every run's log and results."""
    return {
        path: (path.read_bytes(), path.stat().st_mtime_ns)
        for run in list_runs(place)
        for path in (run / "turns.jsonl", run / "results.json")
    }


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """Return the file, the run folders and the rows of a finished sweep."""
    folder = tmp_path_factory.mktemp("sweep")
    file = write(folder, grid=GRID)
    rows = table(file, folder)
    return file, folder / "sweep_small", rows


def test_one_run_and_row_per_combination(done):
    _, place, rows = done
    runs = list_runs(place)
    assert [row["runs"] for row in rows] == [[path.name] for path in runs]
    assert [row["label"] for row in rows] == [
        f"model={model}, views={views}" for model in GRID["model"] for views in GRID["views"]
    ]
    first = RunData(runs[0])
    for row, path in zip(rows, runs, strict=True):
        folder = RunData(path)
        results = folder.saved_results
        assert row["label"] == f"model={folder.config.model}, views={folder.config.views}"
        assert row["official"] == results["official"]
        assert row["per_question"]["turns"] == results["totals"]["turns"] / 4
        assert row["per_question"]["tokens_in"] == results["totals"]["tokens"]["in"] / 4
        assert (row["status"], row["scored"], row["failed"]) == ("complete", 4, 0)
        if path is not runs[0]:
            sides = (Side(one.name, one.saved_results) for one in (first, folder))
            expected = compare(*sides)["differences"]["official"]["difference"]
            assert row["difference"] == expected
    assert "difference" not in rows[0]


def test_printed_table_has_the_scores(done):
    file, place, rows = done
    arguments = ["sweep", str(file), "--output", str(place.parent)]
    printed = CliRunner().invoke(cli, arguments, env={"COLUMNS": "200"}).output
    for row in rows:
        lines = [line for line in printed.splitlines() if line.strip().startswith(row["label"])]
        assert any(f"{row['official']:.1f}" in line for line in lines)
    assert "blind" in printed


def test_cost_has_a_column_if_it_is_known(done, tmp_path):
    file, place, rows = done
    prices = tmp_path / "prices.yaml"
    prices.write_text("- {models: [random], in: 100, out: 100}")
    tables = [(file, place.parent, rows)]
    file = write(tmp_path, grid={"model": ["random", "explorer"]}, options={"prices": str(prices)})
    tables.append((file, tmp_path, table(file, tmp_path)))
    for file, output, rows in tables:
        arguments = ["sweep", str(file), "--output", str(output)]
        printed = CliRunner().invoke(cli, arguments, env={"COLUMNS": "300"}).output
        costs = [row["per_question"].get("cost_usd") for row in rows]
        assert ("  cost" in printed) == any(costs)
        for row, cost in zip(rows, costs, strict=True):
            assert (cost is not None) == (bool(costs[0]) and row["label"] == "model=random")
            line = next(
                x for x in printed.splitlines() if x.strip().startswith(row["label"] + "  ")
            )
            assert (f"${cost:.2g}" if cost else "$") in line or cost is None
            assert line.endswith("–") == (bool(costs[0]) and cost is None)


def test_finished_cells_are_not_run_again(done):
    file, place, rows = done
    before = turns(place)
    printed = json.loads(sweep(file, "--output", place.parent, "--json"))
    assert turns(place) == before
    assert printed["cells"] == rows
    assert printed["errors"] == {}
    assert printed["baseline"] == "model=random, views=free"


def test_edited_file_reuses_existing_cells(done, tmp_path):
    file, place, _ = done
    before = turns(place)
    given = yaml.safe_load(file.read_text())
    edited = tmp_path / "sweep.yaml"
    given["grid"] = {"views": ["none", "free"], "model": ["explorer", "frequency"]}
    edited.write_text(yaml.safe_dump(given, sort_keys=False))
    rows = table(edited, place.parent)
    after = turns(place)
    assert before.items() <= after.items()
    assert len(list_runs(place)) == 6
    assert [row["label"] for row in rows] == [
        "views=none, model=explorer",
        "views=none, model=frequency",
        "views=free, model=explorer",
        "views=free, model=frequency",
    ]
    assert len(table(file, place.parent)) == 4
    assert turns(place) == after


def known(file, output, *more):
    """Return the rows without values that differ between equivalent runs: names, time, number of calls."""
    rows = table(file, output, *more)
    for row in rows:
        del row["runs"], row["per_question"]["seconds"], row["per_question"]["calls"]
    return rows


def test_failing_cell_does_not_stop_the_others(tmp_path, monkeypatch):
    file = write(tmp_path, grid={"model": ["random", "explorer", "frequency"]})

    def watch(run, **more):
        if run.config.model == "explorer":
            run.close()
            raise EngineError("the engine stopped")
        return real(run, **more)

    real = run_commands.run_with_progress
    with monkeypatch.context() as patched:
        patched.setattr(run_commands, "run_with_progress", watch)
        output = json.loads(sweep(file, "--output", tmp_path, "--json", code=1))
    assert output["errors"] == {"model=explorer": "the engine stopped"}
    assert [cell["status"] for cell in output["cells"]] == ["complete", "unfinished", "complete"]
    before = turns_of_complete(tmp_path / "sweep_small")
    assert [row["status"] for row in table(file, tmp_path)] == ["complete"] * 3
    assert before.items() <= turns_of_complete(tmp_path / "sweep_small").items()
    assert len(list_runs(tmp_path / "sweep_small")) == 3


def test_failed_questions_are_retried(tmp_path):
    file = write(tmp_path, grid={"model": ["random", "explorer"]})
    whole = known(file, tmp_path)
    place = tmp_path / "sweep_small"
    first, second = list_runs(place)
    *others, last = RunData(second).lines()
    nothing = dict.fromkeys(last.keys() - {"question_id", "turn", "phase", "events"})
    failed = last | nothing | {"views": [], "messages": [], "error": "EngineError: gone"}
    lines = "".join(json.dumps(line) + "\n" for line in [*others, failed])
    (second / "turns.jsonl").write_text(lines)
    rescored = CliRunner().invoke(cli, ["rescore", str(second), "--json"])
    assert json.loads(rescored.stdout)["counts"]["failed"] == 1
    before = turns(place)
    assert known(file, tmp_path) == whole
    assert list_runs(place) == [first, second]
    after = turns(place)
    assert after[first / "turns.jsonl"] == before[first / "turns.jsonl"]
    assert after[second / "turns.jsonl"][0].startswith(lines.encode())


def turns_of_complete(place):
    return {
        run: (run / "turns.jsonl").stat().st_mtime_ns
        for run in list_runs(place)
        if (run / "results.json").exists()
    }


def test_invalid_cell_is_reported_before_any_run(tmp_path):
    file = write(tmp_path, grid={"model": ["random", str(tmp_path / "no-such-model")]})
    with pytest.raises(SetupError, match=r"^model=.*no-such-model: .*no-such-model"):
        sweep(file, "--output", tmp_path)
    assert list_runs(tmp_path / "sweep_small") == []


def test_command_line_overrides_common_options(tmp_path):
    file = write(tmp_path, runs=[{"label": "one"}, {"label": "two", "seed": 3}])
    words = ("--output", tmp_path, "--limit", 2, "--model", "random")
    rows = json.loads(sweep(file, *words, "--json"))["cells"]
    one, two = (RunData(path) for path in list_runs(tmp_path / "sweep_small"))
    assert (one.config.limit, one.config.model, one.config.seed) == (2, "random", 0)
    assert (two.config.limit, two.config.model, two.config.seed) == (2, "random", 3)
    assert [row["label"] for row in rows] == ["one", "two"]
    assert all("PARTIAL" in " ".join(row["notes"]) for row in rows)
    with pytest.raises(UsageError, match=r"sweep.yaml: --seed .*\(two\)"):
        sweep(file, "--output", tmp_path, "--seed", 1)


def test_dry_run(tmp_path):
    file = write(tmp_path, grid=GRID, baseline={"model": "explorer", "views": "none"})
    output = sweep(file, "--output", tmp_path / "runs", "--dry-run")
    assert "model=explorer, views=none (baseline): 4 questions" in output
    assert output.count("4 questions") == 4
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"grid": {"views": ["free", "sideways"]}}, r"'sideways'.*random-walk"),
        ({"grid": {"view": ["free"]}}, "grid: .*'view'.*'views'"),
        ({"grid": {"views": "free"}}, "grid"),
        ({"grid": {"max_turns": [0]}}, "grid: .*max_turns"),
        ({"grid": {"ply": ["a.ply"]}}, "grid: ply"),
        ({"options": {"image_size": "wide"}, "grid": GRID}, "options: .*wide"),
        ({"options": {"output": "a"}, "grid": GRID}, "options: output"),
        ({"grid": GRID, "seeds": 3}, "seeds"),
        ({"grid": {"seed": [1, 2]}, "seeds": [0]}, "seed and seeds"),
        ({"grid": {"batch_size": [1, 2]}}, "are the same run"),
        ({"runs": [{"label": "a"}, {"label": "a", "seed": 1}]}, "duplicate label 'a'"),
        ({"runs": ["free"]}, "runs"),
        ({}, "Set grid or runs"),
        ({"grid": GRID, "baseline": "nobody"}, "baseline 'nobody'"),
        ({"grid": GRID, "name": "../up"}, "name"),
        ({"grid": {"devices": [["cpu", "cuda"]], "workers": [3]}}, "--devices"),
    ],
)
def test_invalid_options(tmp_path, given, said):
    file = write(tmp_path, **given)
    with pytest.raises(UsageError, match=f"^{file}: {said}|{file}: .*{said}"):
        read_sweep(file, {}, tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", r"line 1"),
        ("- 1", "name, options"),
        ("", "Set grid or runs"),
    ],
)
def test_invalid_files(tmp_path, text, said):
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(UsageError, match=said):
        read_sweep(tmp_path / "a.yaml", {}, tmp_path)
    with pytest.raises(UsageError, match=r"b\.yaml"):
        sweep(tmp_path / "b.yaml")


@pytest.mark.slow
def test_example_runs(tmp_path):
    assert sweep(EXAMPLE, "--output", tmp_path, "--dry-run").count("160 questions") == 12
    few = ("--scene", "room07", "--limit", 1, "--image-size", "64x48", "--model", "random")
    rows = json.loads(sweep(EXAMPLE, "--output", tmp_path, *few, "--json"))["cells"]
    assert len(rows) == 12
    assert {row["status"] for row in rows} == {"complete"}


def test_sweep_in_the_docs_is_valid(tmp_path):
    output = (EXAMPLE.parents[1] / "docs" / "how-to" / "sweep.md").read_text("utf-8")
    (tmp_path / "a.yaml").write_text(output.split("```yaml\n")[1].split("```")[0])
    asked = read_sweep(tmp_path / "a.yaml", {}, tmp_path)
    assert len(asked.cells) == 4 * 2 + 1
    assert asked.baseline == "views=free, max_turns=9"
    assert asked.cells[-1].label == "mirrored rooms"


def test_cells_about_other_scans_are_not_paired(tmp_path):
    questions = spread_over_rooms(make_questions(tmp_path, 6), 3)
    cells, started = [], {}
    for label in ("a", "b"):
        config = make_config(tmp_path, questions, max_turns=2)
        cells.append(SweepRun(label, config, label))
        started[label] = RunData(play(tmp_path, questions, walking_engine(6), max_turns=2)[0])
        shutil.copy(tmp_path / "room1.ply", tmp_path / "room2.ply")
        (tmp_path / "room2.ply").write_bytes((tmp_path / "room2.ply").read_bytes() + b"\n")
    _, row = sweep_rows(Sweep("made", tuple(cells), "a"), started)
    assert any(str(tmp_path / "room2.ply") in note for note in row["notes"])
    assert row["scenes"] == 2
