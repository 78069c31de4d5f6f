"""The page "add a benchmark" works: its questions are asked, selected, scored, and resumed."""

from factories.packages import install_page

from render_agent.runs.read import RunData, list_runs


def test_benchmark_from_the_docs_page(tmp_path, monkeypatch, type_in):
    words = install_page(monkeypatch, tmp_path, "add-a-benchmark")
    code, _, output = type_in(*words, folder=tmp_path)
    assert code == 0, output
    (path,) = list_runs(tmp_path / "experiment_logs")
    run = RunData(path)
    assert run.record["packages"] == {"benchmark presence": "presence-benchmark 1.0"}
    assert [question.id for question in run.questions] == [
        "room07-bed",
        "room07-piano",
        "room07-sofa",
    ]
    results = run.saved_results
    assert results["counts"]["answered"] == 3
    assert results["types"]["presence"]["n"] == 3
    assert results["chance"]["random"]["presence"] == 50
    for row in results["questions"]:
        assert row["score"] == (row["answer"] == row["truth"])
    for line in run.lines():
        assert "truth" not in str(line["messages"]).lower()
