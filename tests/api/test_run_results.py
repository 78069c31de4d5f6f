"""Runs read from their folders: data frames match the log, and dialogues have their images."""

import io
import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from factories.runs import STEP, make_questions, play, walking_engine
from PIL import Image

import render_agent
from render_agent.cli.commands.export import export_command
from render_agent.cli.main import cli
from render_agent.engines.scripted import ReplayPolicy, ScriptedEngine
from render_agent.errors import RenderError, RunLogError, UsageError
from render_agent.runs.log.row import COLUMNS
from render_agent.util.sanitize import printable_json


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def questions(folder):
    return make_questions(folder)


@pytest.fixture(scope="module")
def walking_run(folder, questions):
    path, _ = play(folder, questions, walking_engine(4), max_turns=5)
    return path


@pytest.fixture(scope="module")
def rooms(folder):
    options = {"benchmark": "rooms", "engine": "scripted", "output": folder / "rooms"}
    options |= {"image_size": (96, 72), "max_turns": 3, "scene": ["room00", "room04"]}
    options |= {"type": ["object_counting", "object_abs_distance", "object_rel_distance"]}
    return render_agent.run(**options), render_agent.run(**options, views="none", model="oracle")


def test_questions_frame_matches_the_written_table(walking_run):
    frame = render_agent.load_run(walking_run).questions
    names = [*COLUMNS, "score_parsed"]
    kinds = {name: str(kind) for name, kind in frame.dtypes[names].items()}
    written = pd.read_csv(walking_run / "results.csv", dtype=kinds)
    pd.testing.assert_frame_equal(frame[names], written, check_categorical=False)
    assert frame["cause"].isna().all()
    assert (kinds["question_id"], kinds["score"], kinds["turns"]) == ("string", "float64", "Int64")


def test_turns_frame_matches_the_log(walking_run):
    result = render_agent.load_run(walking_run)
    lines = {(line["question_id"], line["turn"]): line for line in result.folder.lines()}
    frame = result.turns
    assert len(frame) == len(lines) == 11
    for row in frame.itertuples():
        line = lines[row.question_id, row.turn]
        for name in ("phase", "reply", "happened"):
            assert getattr(row, name) == line[name]
        assert row.views == ",".join(f"{view['number']}:{view['kind']}" for view in line["views"])
        assert [row.stood_x, row.stood_y, row.stood_z] == line["stood"]["position"]
        assert (row.stood_yaw, row.batch_size) == (line["stood"]["yaw"], line["batch_size"])
        assert (row.tokens_in, row.tokens_out) == (line["tokens"]["in"], line["tokens"]["out"])
        assert row.seconds_rendering == pytest.approx(line["seconds"]["rendering"], abs=1e-4)
        share = line["seconds"]["generating"] / line["batch_size"]
        assert row.seconds_generating == pytest.approx(share, abs=1e-4)
        assert row.done == bool(line["action"].get("done"))
    assert frame["malformed"].isna().all()
    assert frame["done"].sum() == 4


def test_frames_match_the_export_command(rooms, tmp_path):
    run = render_agent.load_run(rooms[0].path)
    run.diagnosis(processes=1)
    for form, frame in (("parquet", run.questions), ("turns-parquet", run.turns)):
        options = ["--format", form, "--diagnose", "--to", str(tmp_path / form)]
        export_command.main([*options, str(run.path)], standalone_mode=False)
        written = pd.read_parquet(tmp_path / form)
        assert list(frame) == list(written)
        for name in frame:
            for ours, theirs in zip(frame[name], written[name], strict=True):
                assert (pd.isna(ours) and pd.isna(theirs)) or ours == theirs, name


def test_types_frame_matches_the_results(rooms):
    run, _ = rooms
    written = json.loads((run.path / "results.json").read_text())
    assert {**run.results, "totals": None} == {**written, "totals": None}
    assert run.score == written["official_raw"]
    frame = run.types
    assert frame.index.name == "type"
    for name, result in written["types"].items():
        row = frame.loc[name]
        assert (row["n"], row["score_percent"]) == (result["n"], result["score"])
        bounds = written["intervals"][name]
        if bounds is None:
            assert pd.isna(row["low_percent"])
        else:
            assert [row["low_percent"], row["high_percent"]] == bounds
    assert (frame["n"].sum(), len(run)) == (written["n"], written["counts"]["questions"])
    assert {str(kind) for kind in frame.dtypes} == {"Int64", "float64"}


def test_empty_frame_has_the_same_columns_and_types(folder, questions, walking_run):
    path, _ = play(
        folder, questions, ScriptedEngine(ReplayPolicy({"*": ["?"]})), max_turns=1, limit=1
    )
    full, empty = render_agent.load_run(walking_run), render_agent.load_run(path)
    kinds = [{n: str(k) for n, k in frame.dtypes.items()} for frame in (full.turns, empty.turns)]
    assert kinds[0] == kinds[1]
    assert empty.turns["malformed"].notna().all()
    assert empty.turns["answer"].isna().all()


def test_dialogue_has_turns_and_images(walking_run):
    run = render_agent.load_run(walking_run)
    for dialogue in run.dialogues():
        lines = [line for line in run.folder.lines() if line["question_id"] == dialogue.question.id]
        assert len(dialogue) == len(dialogue.turns) == len(lines)
        for turn, line in zip(dialogue.turns, lines, strict=True):
            logged = (line["turn"], line["reply"], line["happened"])
            assert (turn.number, turn.reply, turn.feedback) == logged
            assert [view.number for view in turn.views] == [v["number"] for v in line["views"]]
            for logged in line["views"]:
                view = dialogue.views[logged["number"]]
                data = (walking_run / logged["file"]).read_bytes()
                assert view._repr_png_() == data
                pixels = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
                assert (np.asarray(view) == pixels).all()
                assert view.image.size == (96, 72)
        assert dialogue.turns[0].messages[0] == lines[0]["messages"][0]
        assert [view.number for view in dialogue.views] == list(range(len(dialogue.views)))
    first = run.dialogue(0)
    row = run.questions.iloc[0]
    expected = (row["answer"], row["truth"], row["score"])
    assert (first.answer, first.question.ground_truth, first.score) == expected
    with pytest.raises(UsageError, match="'9'"):
        run.dialogue(9)


def test_map_matches_the_run(folder, questions):
    steps = [STEP, STEP, json.dumps({"view": "top"}), json.dumps({"answer": "4", "done": True})]
    path, _ = play(
        folder, questions, ScriptedEngine(ReplayPolicy({"*": steps})), limit=1, max_turns=4
    )
    dialogue = render_agent.load_run(path).dialogue("0")
    top = dialogue.views[dialogue.turns[3].views[0].number]
    assert top.kind == "top"
    assert (dialogue.map().pixels == top.pixels).all()
    assert dialogue.map((320, 240)).pixels.shape == (240, 320, 3)


def test_blind_dialogue_has_no_map(rooms):
    dialogue = rooms[1].dialogues()[0]
    with pytest.raises(RenderError, match="map"):
        dialogue.map()
    assert "<img" not in dialogue._repr_html_()


def test_frames_include_the_diagnosis(rooms):
    run = render_agent.load_run(rooms[0].path)
    assert run.questions["cause"].isna().all()
    result = run.diagnosis(processes=1)
    frame = run.questions
    assert list(result) == frame["question_id"].tolist()
    for row in frame.itertuples():
        diagnosis = result[row.question_id]
        assert row.cause == str(diagnosis.cause)
        assert row.coverage == diagnosis.coverage
        assert row.path_metres == diagnosis.path
    assert run.turns["coverage"].notna().all()


def test_compare_matches_the_command(rooms, walking_run):
    explorer, oracle = rooms
    comparison = explorer.compare(oracle)
    assert 5 < len(repr(comparison.found).splitlines()) < 60
    assert comparison.found["a"] == explorer.name
    result = CliRunner().invoke(cli, ["compare", str(explorer.path), str(oracle.path), "--json"])
    printed = json.loads(result.output)
    assert printed.pop("warnings") == list(comparison.warnings) == []
    assert json.loads(printable_json(comparison.found)) == printed
    for entry in comparison.found["differences"].values():
        assert entry["difference"] == pytest.approx(entry["b"] - entry["a"])
    micro = comparison.found["differences"]["micro"]
    assert (micro["a"], micro["b"]) == (explorer.results["micro"], oracle.results["micro"])
    changed = comparison.found["changed"]
    right = [run.questions.set_index("question_id")["score"] >= 0.5 for run in rooms]
    differing = right[0][right[0] != right[1]]
    assert sorted(entry["question_id"] for entry in changed) == sorted(differing.index)
    assert len(changed) > 3
    with pytest.raises(UsageError, match=r"not comparable.*anyway=True"):
        explorer.compare(walking_run)
    with pytest.raises(UsageError, match="in common"):
        explorer.compare(walking_run, anyway=True)


def test_report_is_written(walking_run):
    page = render_agent.load_run(walking_run).report(processes=1)
    assert page == walking_run / "report" / "index.html"
    assert page.is_file()


def test_load_run_by_name_path_and_recency(walking_run, folder):
    assert render_agent.load_run(walking_run.name, folder / "runs").path == walking_run
    newest = max(path.name for path in (folder / "runs").iterdir() if path.is_dir())
    assert render_agent.load_run(output=folder / "runs").name == newest
    with pytest.raises(RunLogError, match="'none'"):
        render_agent.load_run("none", folder)


def test_unfinished_run_can_be_read(walking_run, tmp_path):
    path = tmp_path / "20260101T000000_batched"
    path.mkdir()
    for name in ("config.json", "questions.jsonl"):
        (path / name).write_bytes((walking_run / name).read_bytes())
    lines = (walking_run / "turns.jsonl").read_bytes().splitlines(keepends=True)
    (path / "turns.jsonl").write_bytes(b"".join(lines[:6]) + lines[6][:20])
    run = render_agent.load_run(path)
    assert not run.finished
    assert run.stamps[0] == "INTERRUPTED"
    assert "INTERRUPTED" in repr(run)
    assert len(run.turns) == 6
    assert run.questions["status"].tolist().count("active") >= 1
    assert run.questions.loc[run.questions["status"] == "active", "score"].isna().all()
