"""Tests of sweeps: parsing of the file, reuse of existing runs, and the table."""

import io
import json
import shutil
from contextlib import closing

import pytest
import yaml
from click.testing import CliRunner
from factories import TREE
from factories.runs import (
    make_questions,
    play,
    spread_over_rooms,
    truncate_log,
    walking_engine,
)
from factories.sweeps import sweep, write_sweep

from render_agent.cli.commands.sweep import plan as cells
from render_agent.cli.commands.sweep.plan import find_cells, read_sweep
from render_agent.cli.main import cli
from render_agent.errors import EngineError, SetupError, UsageError
from render_agent.report.comparison.runs_table import RunGroup, run_rows, runs_table
from render_agent.runs.log.lock import FolderLock
from render_agent.runs.read import RunData, list_runs
from render_agent.score.comparison import Side, compare
from render_agent.tasks.rooms import load_bundled_rooms
from render_agent.util.console import PlainConsole

EXAMPLE = TREE / "examples" / "views.yaml"


GRID = {"model": ["random", "explorer"], "views": ["free", "none"]}


def run_cells(file, output, *arguments):
    """Run a sweep and return its rows."""
    return json.loads(sweep(file, "--output", output, "--json", *arguments))["cells"]


def run_files(folder):
    """Return the content and modification time of every run's log and results."""
    return {
        path: (path.read_bytes(), path.stat().st_mtime_ns)
        for run in list_runs(folder)
        for path in (run / "turns.jsonl", run / "results.json")
    }


@pytest.fixture(scope="module")
def finished_sweep(tmp_path_factory):
    """Return the file, the run folders and the rows of a finished sweep."""
    folder = tmp_path_factory.mktemp("sweep")
    file = write_sweep(folder, grid=GRID)
    rows = run_cells(file, folder)
    return file, folder / "sweep_small", rows


def test_one_run_and_row_per_combination(finished_sweep):
    _, folder, rows = finished_sweep
    runs = list_runs(folder)
    assert [row["runs"] for row in rows] == [[path.name] for path in runs]
    assert [row["label"] for row in rows] == [
        f"model={model}, views={views}" for model in GRID["model"] for views in GRID["views"]
    ]
    first = RunData(runs[0])
    for row, path in zip(rows, runs, strict=True):
        run = RunData(path)
        results = run.saved_results
        assert row["label"] == f"model={run.config.model}, views={run.config.views}"
        assert row["official_raw"] == results["official_raw"]
        assert row["per_question"]["turns"] == results["totals"]["turns"] / 4
        assert row["per_question"]["tokens_in"] == results["totals"]["tokens"]["in"] / 4
        assert (row["status"], row["scored"], row["failed"]) == ("complete", 4, 0)
        if path is not runs[0]:
            sides = (Side(each.name, each.saved_results) for each in (first, run))
            expected = compare(*sides)["differences"]["official_raw"]["difference"]
            assert row["difference"] == expected
    assert "difference" not in rows[0]


def test_printed_table_has_the_scores(finished_sweep):
    file, folder, rows = finished_sweep
    arguments = ["sweep", str(file), "--output", str(folder.parent)]
    printed = CliRunner().invoke(cli, arguments, env={"COLUMNS": "100"}).output
    for row in rows:
        (line,) = (x for x in printed.splitlines() if x.startswith(f"{row['label']}  "))
        assert f"  {row['official_raw']:.1f}" in line
        assert len(line) <= 100
    assert "blind" in printed
    assert f"{rows[0]['per_question']['turns']:.1f} turns" in printed


def test_statuses_of_rows(finished_sweep, tmp_path):
    file, folder, rows = finished_sweep
    copy = tmp_path / folder.name
    shutil.copytree(folder, copy)
    running, interrupted, removed = (copy / row["runs"][0] for row in rows[:3])
    truncate_log(running, 2)
    truncate_log(interrupted, 2)
    shutil.rmtree(removed)
    plan = read_sweep(file, {}, tmp_path)
    with closing(FolderLock(running)):
        changed = run_rows(plan.groups(find_cells(plan)), plan.baseline)
    statuses = ["running", "interrupted", "not started", "complete"]
    assert [row["status"] for row in changed] == statuses
    console = PlainConsole(file=io.StringIO(), width=120)
    console.print(runs_table(changed, plan.baseline))
    printed = [line for line in console.file.getvalue().splitlines() if "views=" in line]
    assert all(status in line for status, line in zip(statuses[:3], printed, strict=False))


def test_cost_is_printed_if_it_is_known(finished_sweep, tmp_path):
    file, folder, rows = finished_sweep
    prices = tmp_path / "prices.yaml"
    prices.write_text("- {models: [random], in: 100, out: 100}")
    tables = [(file, folder.parent, rows)]
    file = write_sweep(
        tmp_path, grid={"model": ["random", "explorer"]}, options={"prices": str(prices)}
    )
    tables.append((file, tmp_path, run_cells(file, tmp_path)))
    for file, output, rows in tables:
        arguments = ["sweep", str(file), "--output", str(output)]
        printed = CliRunner().invoke(cli, arguments, env={"COLUMNS": "300"}).output
        costs = [row["per_question"].get("cost_usd") for row in rows]
        notes = " ".join(printed.split()).partition("plot: ")[0].split(" - ")
        lines = [note for note in notes if note.startswith("mean per question")]
        assert ("$" in printed) == any(costs)
        for row, cost in zip(rows, costs, strict=True):
            assert (cost is not None) == (bool(costs[0]) and row["label"] == "model=random")
            line = next(line for line in lines if row["label"] in line or "(all runs)" in line)
            assert ("$" in line) == (cost is not None)


def test_finished_cells_are_not_run_again(finished_sweep):
    file, folder, rows = finished_sweep
    before = run_files(folder)
    printed = json.loads(sweep(file, "--output", folder.parent, "--json"))
    assert run_files(folder) == before
    assert printed["cells"] == rows
    assert printed["errors"] == {}
    assert printed["baseline"] == "model=random, views=free"


def test_edited_file_reuses_existing_cells(finished_sweep, tmp_path):
    file, folder, _ = finished_sweep
    before = run_files(folder)
    content = yaml.safe_load(file.read_text())
    edited = tmp_path / "sweep.yaml"
    content["grid"] = {"views": ["none", "free"], "model": ["explorer", "frequency"]}
    edited.write_text(yaml.safe_dump(content, sort_keys=False))
    rows = run_cells(edited, folder.parent)
    after = run_files(folder)
    assert before.items() <= after.items()
    assert len(list_runs(folder)) == 6
    assert [row["label"] for row in rows] == [
        "views=none, model=explorer",
        "views=none, model=frequency",
        "views=free, model=explorer",
        "views=free, model=frequency",
    ]
    assert len(run_cells(file, folder.parent)) == 4
    assert run_files(folder) == after


def reproducible_cells(file, output, *arguments):
    """Return the rows without values that differ between equivalent runs: names, time, number of calls."""
    rows = run_cells(file, output, *arguments)
    for row in rows:
        del row["runs"], row["per_question"]["seconds"], row["per_question"]["calls"]
    return rows


def test_failing_cell_does_not_stop_the_others(tmp_path, monkeypatch):
    file = write_sweep(tmp_path, grid={"model": ["random", "explorer", "frequency"]})

    def fail_explorer(run, **options):
        if run.config.model == "explorer":
            run.close()
            raise EngineError("the engine stopped")
        return run_with_progress(run, **options)

    run_with_progress = cells.run_with_progress
    with monkeypatch.context() as patched:
        patched.setattr(cells, "run_with_progress", fail_explorer)
        output = json.loads(sweep(file, "--output", tmp_path, "--json", code=1))
    assert output["errors"] == {"model=explorer": "the engine stopped"}
    assert [cell["status"] for cell in output["cells"]] == ["complete", "interrupted", "complete"]
    before = log_times(tmp_path / "sweep_small")
    assert [row["status"] for row in run_cells(file, tmp_path)] == ["complete"] * 3
    assert before.items() <= log_times(tmp_path / "sweep_small").items()
    assert len(list_runs(tmp_path / "sweep_small")) == 3


def test_failed_questions_are_retried(tmp_path):
    file = write_sweep(tmp_path, grid={"model": ["random", "explorer"]})
    expected = reproducible_cells(file, tmp_path)
    folder = tmp_path / "sweep_small"
    first, second = list_runs(folder)
    *earlier_lines, last = RunData(second).lines()
    empty_fields = dict.fromkeys(last.keys() - {"question_id", "turn", "phase", "events"})
    failed = last | empty_fields | {"views": [], "messages": [], "error": "EngineError: gone"}
    lines = "".join(json.dumps(line) + "\n" for line in [*earlier_lines, failed])
    (second / "turns.jsonl").write_text(lines)
    rescored = CliRunner().invoke(cli, ["rescore", str(second), "--json"])
    assert json.loads(rescored.stdout)["counts"]["failed"] == 1
    before = run_files(folder)
    assert reproducible_cells(file, tmp_path) == expected
    assert list_runs(folder) == [first, second]
    after = run_files(folder)
    assert after[first / "turns.jsonl"] == before[first / "turns.jsonl"]
    assert after[second / "turns.jsonl"][0].startswith(lines.encode())


def log_times(folder):
    return {
        run: (run / "turns.jsonl").stat().st_mtime_ns
        for run in list_runs(folder)
        if (run / "results.json").exists()
    }


def test_invalid_cell_is_reported_before_any_run(tmp_path):
    file = write_sweep(tmp_path, grid={"model": ["random", str(tmp_path / "no-such-model")]})
    with pytest.raises(SetupError, match=r"^model=.*no-such-model: .*no-such-model"):
        sweep(file, "--output", tmp_path)
    assert list_runs(tmp_path / "sweep_small") == []


def test_command_line_overrides_common_options(tmp_path):
    file = write_sweep(tmp_path, runs=[{"label": "one"}, {"label": "two", "seed": 3}])
    arguments = ("--output", tmp_path, "--limit", 2, "--model", "random")
    rows = json.loads(sweep(file, *arguments, "--json"))["cells"]
    first, second = (RunData(path) for path in list_runs(tmp_path / "sweep_small"))
    assert (first.config.limit, first.config.model, first.config.seed) == (2, "random", 0)
    assert (second.config.limit, second.config.model, second.config.seed) == (2, "random", 3)
    assert [row["label"] for row in rows] == ["one", "two"]
    assert all("PARTIAL" in " ".join(row["notes"]) for row in rows)
    with pytest.raises(UsageError, match=r"sweep.yaml: --seed .*\(two\)"):
        sweep(file, "--output", tmp_path, "--seed", 1)


def test_dry_run(tmp_path):
    file = write_sweep(tmp_path, grid=GRID, baseline={"model": "explorer", "views": "none"})
    output = sweep(file, "--output", tmp_path / "runs", "--dry-run")
    assert "model=explorer, views=none (baseline): 4 questions" in output
    assert output.count("4 questions") == 4
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("keys", "message"),
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
def test_invalid_options(tmp_path, keys, message):
    file = write_sweep(tmp_path, **keys)
    with pytest.raises(UsageError, match=f"^{file}: {message}|{file}: .*{message}"):
        read_sweep(file, {}, tmp_path)


@pytest.mark.parametrize(
    ("text", "message"), [("a: [", r"line 1"), ("- 1", "name, options"), ("", "Set grid or runs")]
)
def test_invalid_files(tmp_path, text, message):
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(UsageError, match=message):
        read_sweep(tmp_path / "a.yaml", {}, tmp_path)
    with pytest.raises(UsageError, match=r"b\.yaml"):
        sweep(tmp_path / "b.yaml")


@pytest.mark.slow
def test_example_runs(tmp_path):
    listed = sweep(EXAMPLE, "--output", tmp_path, "--dry-run")
    assert listed.count(f": {len(load_bundled_rooms())} questions") == 12
    options = ("--scene", "room07", "--limit", 1, "--image-size", "64x48", "--model", "random")
    rows = json.loads(sweep(EXAMPLE, "--output", tmp_path, *options, "--json"))["cells"]
    assert len(rows) == 12
    assert {row["status"] for row in rows} == {"complete"}


def test_sweep_in_the_docs_is_the_example(tmp_path):
    page = (EXAMPLE.parents[1] / "docs" / "how-to" / "sweep.md").read_text("utf-8")
    grid, runs = (part.split("```")[0] for part in page.split("```yaml\n")[1:3])
    assert grid in EXAMPLE.read_text("utf-8")
    (tmp_path / "a.yaml").write_text(grid + runs)
    sweep_plan = read_sweep(tmp_path / "a.yaml", {}, tmp_path)
    assert len(sweep_plan.cells) == 6 * 2 + 1
    assert sweep_plan.baseline == "views=free, max_turns=9"
    assert sweep_plan.cells[-1].label == "mirrored rooms"


def test_cells_about_other_scans_are_not_paired(tmp_path):
    questions = spread_over_rooms(make_questions(tmp_path, 6), 3)
    groups = []
    for label in ("a", "b"):
        run = RunData(play(tmp_path, questions, walking_engine(6), max_turns=2)[0])
        groups.append(RunGroup(label, [run]))
        shutil.copy(tmp_path / "room1.ply", tmp_path / "room2.ply")
        (tmp_path / "room2.ply").write_bytes((tmp_path / "room2.ply").read_bytes() + b"\n")
    _, row = run_rows(groups, "a")
    assert any(str(tmp_path / "room2.ply") in note for note in row["notes"])
    assert row["scenes"] == 2
