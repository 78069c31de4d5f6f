"""The page "add a benchmark" is so: its questions are asked, narrowed, scored, and go on from disk."""

from factories.packages import install_page

from render_agent.runs.read import RunData, list_runs


def test_the_benchmark_of_the_page_is_asked(tmp_path, monkeypatch, type_in):
    words = install_page(monkeypatch, tmp_path, "add-a-benchmark")
    code, _, told = type_in(*words, folder=tmp_path)
    assert code == 0, told
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
