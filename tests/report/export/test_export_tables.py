"""Tests of exported question and turn rows: types, values and diagnosis columns."""

import math
import shutil
import sys

import pyarrow as pa
import pytest
from factories.exports import export, make_run, read_csv
from pyarrow import parquet

from render_agent.errors import SetupError
from render_agent.report.diagnosis.diagnose import diagnose_run
from render_agent.report.result_rows import QUESTION_COLUMNS
from render_agent.runs.read import RunData


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("run"))


def test_question_rows_match_the_results(run, tmp_path):
    export(run, "--format", "parquet", "--to", tmp_path / "a.parquet")
    rows = parquet.read_table(tmp_path / "a.parquet").to_pylist()
    results = RunData(run).saved_results
    for row, expected in zip(rows, results["questions"], strict=True):
        assert {name: row[name] for name in expected} == expected
        assert row["run"] == run.name
        assert (row["model"], row["views"], row["image_stress"]) == ("explorer", "free", "real")
        assert (row["image_width"], row["image_height"]) == (96, 72)
    totals = results["totals"]
    for name, total in (("tokens_in", "in"), ("tokens_out", "out")):
        assert sum(row[name] for row in rows) == totals["tokens"][total] > 0
    for name in ("rendering", "waiting", "generating"):
        exported_seconds = sum(row[f"seconds_{name}"] for row in rows)
        assert math.isclose(exported_seconds, totals["seconds"][name], abs_tol=1e-2)
    assert sum(row["turns"] for row in rows) == totals["turns"]
    assert sum(row["repairs"] for row in rows) == results["counts"]["repairs"] == 1


def test_turn_rows_match_the_log(run, tmp_path):
    export(run, "--format", "turns-parquet", "--to", tmp_path / "a.parquet")
    rows = parquet.read_table(tmp_path / "a.parquet").to_pylist()
    turns = [(state, turn) for state in RunData(run).states for turn in state.turns]
    for row, (state, turn) in zip(rows, turns, strict=True):
        assert (row["question_id"], row["turn"]) == (state.id, turn.number)
        position = tuple(row[f"stood_{axis}"] for axis in "xyz")
        assert position == turn.camera_before.position
        assert (row["camera_yaw"], row["camera_pitch"]) == (turn.camera.yaw, turn.camera.pitch)
        assert row["reply"] == turn.reply
        if turn.outcome is None:
            assert row["rotation_degrees"] is row["moved_forward_metres"] is row["limits"] is None
        else:
            assert row["rotation_degrees"] == turn.outcome.turned
            for name, steps in (
                ("requested", turn.outcome.requested),
                ("moved", turn.outcome.moved),
            ):
                assert (
                    tuple(row[f"{name}_{axis}_metres"] for axis in ("forward", "left", "up"))
                    == steps
                )
            assert row["limits"] == (",".join(turn.outcome.limits) or None)
            assert row["level_obstacle"] == turn.outcome.level_obstacle
        assert row["tokens_in"] == turn.tokens.prompt
        assert row["pictures_shown"] == len(turn.views)
        assert (row["malformed"] is not None) == (turn.reply == "no JSON at all")
        assert row["done"] == (turn is state.turns[-1])


def test_empty_columns_have_types(run, tmp_path):
    export(run, "--format", "parquet", "--question", 3, "--to", tmp_path / "a.parquet")
    table = parquet.read_table(tmp_path / "a.parquet")
    types = {"text": pa.string(), "int": pa.int64(), "float": pa.float64(), "bool": pa.bool_()}
    assert {field.name: field.type for field in table.schema} == {
        column.name: types[column.kind] for column in QUESTION_COLUMNS
    }
    assert table.column("cause").to_pylist() == [None]
    assert table.column("coverage").to_pylist() == [None]


def test_csv_equals_parquet(run, tmp_path):
    blind_run = make_run(tmp_path, seed=1, views="none")
    for form in ("csv", "turns-csv"):
        beside = form.replace("csv", "parquet")
        export(run, blind_run, "--format", form, "--to", tmp_path / form)
        export(run, blind_run, "--format", beside, "--to", tmp_path / beside)
        rows = parquet.read_table(tmp_path / beside).to_pylist()
        expected = [
            {name: "" if value is None else str(value) for name, value in row.items()}
            for row in rows
        ]
        assert read_csv(tmp_path / form) == expected
    rows = read_csv(tmp_path / "csv")
    assert [(row["seed"], row["views"]) for row in rows] == [("0", "free")] * 4 + [
        ("1", "none")
    ] * 4


def test_runs_with_the_same_name_get_suffixes(run, tmp_path):
    copy = tmp_path / run.name
    shutil.copytree(run, copy)
    export(run, copy, "--format", "csv", "--to", tmp_path / "a")
    names = [row["run"] for row in read_csv(tmp_path / "a")]
    assert names == [run.name] * 4 + [f"{run.name}~2"] * 4
    pytest.importorskip("inspect_ai")
    export(run, copy, "--format", "inspect", "--to", tmp_path / "logs")
    logs = sorted(path.name for path in (tmp_path / "logs").iterdir())
    assert logs == [f"{run.name}.eval", f"{run.name}~2.eval"]


def test_diagnose_fills_the_diagnosis_columns(tmp_path):
    run = make_run(tmp_path)
    diagnoses = diagnose_run(RunData(run))
    export(run, "--format", "parquet", "--diagnose", "--to", tmp_path / "a")
    export(run, "--format", "turns-parquet", "--diagnose", "--to", tmp_path / "b")
    rows = {row["question_id"]: row for row in parquet.read_table(tmp_path / "a").to_pylist()}
    for name, diagnosis in diagnoses.items():
        assert rows[name]["cause"] == str(diagnosis.cause)
        assert rows[name]["coverage"] == diagnosis.coverage
        assert rows[name]["path_metres"] == diagnosis.path
    turns = [turn for name in rows for turn in diagnoses[name].turns]
    turn_rows = parquet.read_table(tmp_path / "b").to_pylist()
    assert [row["coverage"] for row in turn_rows] == [turn.coverage for turn in turns]
    assert any(row["coverage"] > 0 for row in turn_rows)


def test_missing_pyarrow_is_reported_with_a_remedy(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(SetupError, match=r'pip install "render_agent\[parquet\]".*--format csv'):
        export(run, "--format", "parquet", "--to", tmp_path / "a.parquet")
    assert list(tmp_path.iterdir()) == []
    export(run, "--format", "csv", "--to", tmp_path / "a.csv")
