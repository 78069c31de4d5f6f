"""The page "add a question type" works: the type is generated, asked, scored and diagnosed."""

import json
from collections import Counter

from factories.packages import install_page

from render_agent.runs.read import RunData, list_runs
from render_agent.score.summary import asks_vsibench
from render_agent.score.tables import score_table
from render_agent.tasks.question_types import TYPES
from render_agent.util.console import plain_console


def test_type_from_the_docs_page_is_generated_and_scored(tmp_path, monkeypatch, type_in):
    make = ("make-rooms", "--count", "1", "--per-type", "5", "--spacing", "0.5")
    assert type_in(*make, "--to", "rooms", folder=tmp_path)[0] == 0
    before = read_rows(tmp_path / "rooms")
    words = install_page(monkeypatch, tmp_path, "add-a-question-type")
    assert type_in(*make, "--to", "again", folder=tmp_path)[0] == 0
    rows = read_rows(tmp_path / "again")
    counts = Counter(row["question_type"] for row in rows)
    assert counts["object_height"] >= 4
    assert set(counts) <= {*TYPES, "object_height"}
    assert [row for row in rows if row["question_type"] != "object_height"] == before

    (tmp_path / "again").rename(tmp_path / "rooms2")
    arguments = [word.replace("rooms/", "rooms2/") for word in words]
    code, _, output = type_in(*arguments, "--change", "add", "--views", "none", folder=tmp_path)
    assert code == 0, output
    (path,) = list_runs(tmp_path / "experiment_logs")
    run = RunData(path)
    assert run.record["packages"] == {"question type object_height": "object-heights 1.0"}
    results = run.saved_results
    assert results["types"] == {"object_height": {"n": counts["object_height"], "score": 100}}
    assert not asks_vsibench(results)
    assert results["causal"]["stays"]["share"] == 100
    with (console := plain_console()).capture() as printed:
        console.print(score_table(results))
    assert "object height" in printed.get()
    assert "VSI-Bench score" not in printed.get()


def read_rows(folder):
    """Return the generated rows without their ids, which number the rows of a file."""
    lines = (folder / "questions.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k != "id"} for line in lines]
