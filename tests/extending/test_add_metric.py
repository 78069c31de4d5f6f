"""The page "add a metric" works: the metric scores, guesses and votes."""

import json
from dataclasses import replace

import pytest
from factories.documentation import blocks
from factories.packages import install_page

from render_agent import bundled_rooms
from render_agent.agents.vote import ballot
from render_agent.errors import QuestionsError
from render_agent.runs.read import RunData, list_runs
from render_agent.score.chance import most_frequent_answer
from render_agent.score.questions import score_answer
from render_agent.score.tables import overall_lines, score_table
from render_agent.tasks.row_files import load_questions


def write_questions(folder):
    """Write the question file of the page and its scan to a folder; return the file."""
    (row,) = blocks("extending/add-a-metric.md", "json")
    path = folder / "questions.jsonl"
    path.write_text(json.dumps(json.loads(row)), "utf-8")
    (folder / "hall.ply").symlink_to(bundled_rooms()["room07"].resolve())
    return path


def test_metric_from_the_docs_page_scores_a_run(tmp_path, monkeypatch, type_in):
    words = install_page(monkeypatch, tmp_path, "add-a-metric")
    write_questions(tmp_path)
    code, _, output = type_in(*words, folder=tmp_path)
    assert code == 0, output
    (path,) = list_runs(tmp_path / "experiment_logs")
    run = RunData(path)
    assert run.record["packages"] == {"metric off-by-one": "close-counts 1.0"}
    results = run.saved_results
    assert (results["questions"][0]["answer"], results["questions"][0]["score"]) == ("2", 0.5)
    assert results["metrics"]["off-by-one"]["score"] == 50
    assert results["chance"]["frequency"]["chairs"] == 50
    lines = " ".join(
        [str(score_table(results).title), *(line.label for line in overall_lines(results))]
    )
    assert "off-by-one" in lines
    for name in ("VSI-Bench", "lmms-eval", "appearance"):
        assert name not in lines


def test_guesses_and_votes_maximise_the_score(tmp_path, monkeypatch):
    install_page(monkeypatch, tmp_path, "add-a-metric")
    (question,) = load_questions(write_questions(tmp_path), "mine")
    scores = {"3": 1, "4": 0.5, "5": 0, "many": 0, None: 0}
    assert {answer: score_answer(question, answer) for answer in scores} == scores
    result = ballot(question, ["1", "4", "5", "5", "3"])
    assert (result.winner, result.expected) == ("4", 0.5)
    questions = [replace(question, ground_truth=truth) for truth in ("1", "4", "5", "6", "6")]
    assert most_frequent_answer(questions) == "5"


def test_unknown_metric_error_lists_the_plugin(tmp_path, monkeypatch):
    install_page(monkeypatch, tmp_path, "add-a-metric")
    file = write_questions(tmp_path)
    file.write_text(file.read_text("utf-8").replace("by-one", "by-two"))
    with pytest.raises(QuestionsError, match=r"off-by-two.*off-by-one"):
        load_questions(file, "mine")
