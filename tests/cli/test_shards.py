"""Shards and merging on the command line."""

import json

from factories.runs import make_questions
from test_end_to_end import QUICK

from render_agent.runs.read import RunData, list_runs


def test_shards_are_run_and_merged(type_in, tmp_path):
    questions = make_questions(tmp_path, 4)
    rows = [json.loads(line) for line in questions.read_text().splitlines()]
    (tmp_path / "hall.ply").write_bytes((tmp_path / "room.ply").read_bytes())
    rows[3]["scene_name"] = "hall"
    questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = ("--batch", "--benchmark", questions, "--model", "random", *QUICK)
    for part in ("1/2", "2/2"):
        code, _, err = type_in(*options, "--shard", part, folder=tmp_path)
        assert code == 0
        assert "PARTIAL" in err
    names = [path.name for path in list_runs(tmp_path / "experiment_logs")]
    code, _, err = type_in("merge", *names, folder=tmp_path)
    assert code == 0
    assert "PARTIAL" not in err
    merged = RunData(list_runs(tmp_path / "experiment_logs")[-1])
    assert merged.record["merged"] == names
    assert merged.saved_results["counts"]["answered"] == 4
    code, _, err = type_in("--continue", merged.name, folder=tmp_path)
    assert code == 0
    assert "is complete" in err
    code, _, err = type_in("merge", names[0], folder=tmp_path)
    assert code == 2
    assert "2/2" in err


def test_merge_reports_unfinished_questions(type_in, tmp_path):
    questions = make_questions(tmp_path, 4)
    rows = [json.loads(line) for line in questions.read_text().splitlines()]
    (tmp_path / "hall.ply").write_bytes((tmp_path / "room.ply").read_bytes())
    (tmp_path / "torn.ply").write_bytes((tmp_path / "room.ply").read_bytes()[:-9])
    for row, scene in zip(rows, ("room", "torn", "torn", "hall"), strict=True):
        row["scene_name"] = scene
    questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = ("--batch", "--benchmark", questions, "--model", "random", *QUICK)
    codes = [type_in(*options, "--shard", part, folder=tmp_path)[0] for part in ("1/2", "2/2")]
    assert sorted(codes) == [0, 1]
    names = [path.name for path in list_runs(tmp_path / "experiment_logs")]
    code, _, err = type_in("merge", *names, folder=tmp_path)
    assert code == 0
    assert "2 questions not done" in " ".join(err.split())


def test_dry_run_estimates_disk_and_time(type_in, tmp_path):
    questions = make_questions(tmp_path, 4)
    options = ("--batch", "--benchmark", questions, *QUICK, "--dry-run")
    code, out, _ = type_in(*options, folder=tmp_path)
    assert code == 0
    code, out, _ = type_in(*options, "--json", folder=tmp_path)
    assert json.loads(out)["disk_bytes"] > 10_000
    assert json.loads(out)["drawing_seconds"] > 0
