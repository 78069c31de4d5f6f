"""The page "add an engine" works: its package is installed and its engine answers."""

import json

from factories.packages import install_page

from render_agent.runs.read import RunData, list_runs


def test_engine_from_the_docs_page(tmp_path, monkeypatch, type_in):
    words = install_page(monkeypatch, tmp_path, "add-an-engine")
    code, _, output = type_in(*words, folder=tmp_path)
    assert code == 0, output
    (path,) = list_runs(tmp_path / "experiment_logs")
    run = RunData(path)
    assert run.record["packages"] == {"engine dice": "dice-engine 1.0"}
    engine = {"name": "dice", "model": "dice", "package": "dice-engine 1.0"}
    assert run.record["engine"] == engine
    lines = run.lines()
    assert len(lines) == 8
    assert [line["reply"] for line in lines[:4]] == ['{"view": "around"}'] * 4
    assert all(json.loads(line["reply"])["done"] for line in lines[4:])
    assert all(line["batch_size"] == 4 for line in lines)
    assert run.saved_results["counts"]["answered"] == 4
    code, _, output = type_in("--continue", "recent", folder=tmp_path)
    assert code == 0
    assert "is complete" in output
