"""Scoring commands, on synthetic runs and on all of VSI-Bench."""

import json
import re
from collections import Counter
from functools import partial

import pytest
from conftest import test_data
from factories.benchmarks import FREQUENCY, write_rows
from factories.documentation import section
from factories.runs import truncate_log

from render_agent.runs.read import RunData, list_runs
from render_agent.score.summary import row_names
from render_agent.tasks.question_types import type_label

BLIND = ("--batch", "--views", "none", "--engine", "scripted", "--json", "--quiet")

# The paper's row "Random".
RANDOM = {
    "object_rel_distance": 25.0,
    "object_rel_direction": 36.1,
    "route_planning": 28.3,
    "obj_appearance_order": 25.0,
}


def documented_row(name):
    """Return a row of the baseline table in the docs, by task."""
    lines = section("how-to/score-answers.md", "Baselines").splitlines()
    (row,) = (line for line in lines if line.startswith(f"| {name} |"))
    cells = [cell.strip() for cell in row.strip("|").split("|")[1:]]
    return {t: float(cell) for t, cell in zip(FREQUENCY, cells, strict=True) if cell != "–"}


def rounded(scores, tasks):
    return {name: round(scores[name], 1) for name in tasks}


@pytest.fixture
def call(type_in, tmp_path):
    return partial(type_in, folder=tmp_path)


@pytest.fixture
def run(call, tmp_path):
    """Run a question file blind; return the run folder and its results."""

    def run_blind(questions, model, *options):
        code, out, err = call(*BLIND, "--questions", questions, "--model", model, *options)
        assert code == 0, err
        return list_runs(tmp_path / "experiment_logs")[-1], json.loads(out)

    return run_blind


@pytest.mark.slow
def test_frequency_baseline_matches_the_paper(run):
    path, result = run(test_data("vsibench", "test.jsonl"), "frequency")
    assert (result["status"], result["n"], result["counts"]["answered"]) == ("complete", 5130, 5130)
    for name, score in FREQUENCY.items():
        assert result["tasks"][name] == pytest.approx(score, abs=0.5), name
        assert result["chance"]["frequency"][name] == pytest.approx(result["tasks"][name], abs=1e-9)
    for name, score in RANDOM.items():
        assert result["chance"]["random"][name] == pytest.approx(score, abs=0.1), name
    assert documented_row("`frequency`") == rounded(result["tasks"], FREQUENCY)
    assert documented_row("`random`, on average") == rounded(result["chance"]["random"], FREQUENCY)
    assert RunData(path).record["engine"]["note"] in " ".join(result["notes"])


@pytest.mark.slow
def test_random_baseline_matches_the_paper(run):
    _, result = run(test_data("vsibench", "test.jsonl"), "random")
    for name, score in RANDOM.items():
        low, high = result["intervals"][name]
        assert abs(result["tasks"][name] - score) < high - low, name
        assert result["chance"]["random"][name] == pytest.approx(score, abs=0.1), name


@pytest.mark.slow
def test_oracle_answers_from_annotations(run):
    folder = test_data("vsibench")
    _, result = run(folder / "test.jsonl", "oracle", "--annotations", folder)
    right = Counter(row["type"] for row in result["questions"] if row["score"] == 1)
    assert right["room_size_estimation"] == 288
    assert right["object_size_estimation"] == 951
    assert right["object_counting"] == 560
    assert result["tasks"]["object_rel_direction"] > 99
    assert result["tasks"]["object_rel_distance"] > 99
    assert result["tasks"]["route_planning"] == pytest.approx(29.4, abs=0.5)
    assert documented_row("`oracle`") == rounded(result["tasks"], FREQUENCY)
    assert any("ground truth" in note for note in result["notes"])


def test_blind_run_has_a_caveat(run, tmp_path):
    path, result = run(write_rows(tmp_path), "explorer", "--max-turns", "4")
    assert "--views none" in result["notes"][-1]
    assert result["totals"]["renders"] == 0
    lines = RunData(path).lines()
    assert {len(line["views"]) for line in lines} == {0}
    assert max(line["turn"] for line in lines) > 1
    texts = [
        piece["text"]
        for line in lines
        for message in line["messages"]
        for piece in message["content"]
    ]
    assert not any("View 0" in text or "You are at" in text for text in texts)


def test_rescore_reproduces_results(run, call, tmp_path):
    path, result = run(write_rows(tmp_path), "random")
    before = (path / "results.json").read_bytes()
    code, out, _ = call("rescore", path.name, "--json")
    assert (code, json.loads(out)) == (0, result)
    assert (path / "results.json").read_bytes() == before
    (path / "results.json").write_text("{}")
    assert call("rescore", "recent")[0] == 0
    assert (path / "results.json").read_bytes() == before


def test_rescore_with_another_parser_writes_a_separate_file(run, call, tmp_path):
    rows = write_rows(tmp_path, scenes=3)
    replies = [{"id": "*", "replies": [{"answer": "It is B, or 2.", "done": True}] * 9}]
    (tmp_path / "replies.json").write_text(json.dumps(replies))
    path, result = run(rows, tmp_path / "replies.json", "--max-turns", "2")
    before = (path / "results.json").read_bytes()
    code, out, _ = call("rescore", path, "--parser", "vlmevalkit", "--json")
    other = json.loads(out)
    assert (code, other["parser"], result["parser"]) == (0, "vlmevalkit", "official")
    assert other["official"] == result["official"]
    assert result["official_raw"] == 0
    assert other["macro"] == result["parsers"]["vlmevalkit"]["macro"] > 0
    assert (path / "results.json").read_bytes() == before
    assert json.loads((path / "results.vlmevalkit.json").read_text()) == other
    code, out, _ = call("rescore", path, "--parser", "vlmevalkit")
    assert "vlmevalkit" in out


def test_unfinished_run_can_be_rescored(run, call, tmp_path):
    path, _ = run(write_rows(tmp_path), "random")
    truncate_log(path, 20)
    code, out, _ = call("rescore", "recent", "--json")
    result = json.loads(out)
    assert (code, result["status"], result["official"]) == (0, "partial", None)
    assert (result["official_over_scored"]["n"], result["counts"]["active"]) == (20, 28)
    assert result["official_missing_as_zero"] < result["official_over_scored"]["score"]
    assert any("28 of 48" in note for note in result["notes"])
    assert not (path / "results.json").exists()
    code, out, _ = call("rescore", "recent")
    assert "PARTIAL" in out
    assert "VSI-Bench score, scored questions only" in out
    (path / "questions.jsonl").unlink()
    code, _, err = call("rescore", "recent")
    assert code == 1
    assert "--continue" in err


def test_compare_two_runs(run, call, tmp_path):
    rows = write_rows(tmp_path)
    a, random = run(rows, "random")
    b, frequency = run(rows, "frequency")
    code, out, _ = call("compare", a.name, b.name, "--json")
    result = json.loads(out)
    assert (code, result["n"], result["scenes"], result["warnings"]) == (0, 48, 12, [])
    official = result["differences"]["official"]
    scores = (random["official"], frequency["official"])
    assert (official["a"], official["b"]) == pytest.approx(scores)
    assert official["difference"] == pytest.approx(scores[1] - scores[0])
    assert official["interval"][0] <= official["difference"] <= official["interval"][1]
    assert result["notes"]["b"] == frequency["notes"]
    code, out, _ = call("compare", a.name, b.name)
    assert code == 0
    assert "McNemar" in out
    assert "95 % CI" in out


def test_comparison_of_few_scenes_omits_intervals(run, call, tmp_path):
    rows = write_rows(tmp_path, scenes=2)
    a, _ = run(rows, "random")
    b, _ = run(rows, "frequency")
    result = json.loads(call("compare", a.name, b.name, "--json")[1])
    assert all(entry["interval"] is None for entry in result["differences"].values())
    code, out, _ = call("compare", a.name, b.name)
    assert (code, out.count("< 6 scenes")) == (0, len(row_names(result["differences"])))


def test_rows_without_an_interval_say_so(run, call, tmp_path):
    """Regression test: the caveat about too few scenes was also printed for other rows."""
    rows = write_rows(tmp_path)
    lines = [json.loads(line) for line in rows.read_text("utf-8").splitlines()]
    few = lines[0]["question_type"]
    scenes = {line["scene_name"] for line in lines[:8]}
    lines = [r for r in lines if r["question_type"] != few or r["scene_name"] in scenes]
    rows.write_text("".join(json.dumps(row) + "\n" for row in lines))
    a, results = run(rows, "random")
    b, _ = run(rows, "frequency")
    without = [name for name in results["types"] if results["intervals"][name] is None]
    assert without
    assert len(without) < len(results["types"])
    for words in (("show", a.name), ("compare", a.name, b.name)):
        _, out, _ = call(*words)
        lines = [line for line in out.splitlines() if "< 6 scenes" in line]
        assert [re.split(r"  +", line)[0] for line in lines] == [type_label(n) for n in without]


def test_partial_runs_are_marked(run, call, tmp_path):
    rows = write_rows(tmp_path)
    a, _ = run(rows, "random", "--limit", 40)
    b, _ = run(rows, "frequency", "--limit", 40)
    _, out, _ = call("compare", a.name, b.name)
    assert "PARTIAL: a, b" in out
    assert f"{b.name} (PARTIAL)" in out


def test_comparison_as_csv_and_latex(run, call, tmp_path):
    rows = write_rows(tmp_path)
    a, _ = run(rows, "random")
    b, frequency = run(rows, "frequency")
    code, out, _ = call("compare", a.name, b.name, "--table", "csv")
    table = [line.split(",") for line in out.splitlines()]
    assert code == 0
    assert float(table[1][2]) == pytest.approx(frequency["official"], abs=0.06)
    code, out, _ = call("compare", a.name, b.name, "--table", "latex")
    assert (code, out.splitlines()[-1]) == (0, "\\end{tabular}")


def test_incomparable_runs_need_anyway(run, call, tmp_path):
    rows = write_rows(tmp_path)
    full, _ = run(rows, "random")
    debiased, _ = run(rows, "random", "--subset", "debiased")
    unfinished, _ = run(rows, "random")
    truncate_log(unfinished, 10)
    for other, reasons in (
        (debiased, ["--subset", "24 questions"]),
        (unfinished, ["38 questions"]),
    ):
        code, out, err = call("compare", full, other)
        assert (code, out) == (2, "")
        assert all(reason in err for reason in [*reasons, "--anyway"])
        code, out, _ = call("compare", full, other, "--anyway", "--json")
        result = json.loads(out)
        assert (code, result["n"]) == (0, 24 if other is debiased else 10)
        assert len(result["warnings"]) == len(reasons)
        assert result["differences"]["official"]["difference"] == 0
        code, out, _ = call("compare", full, other, "--anyway")
        assert "NOT COMPARABLE" in out


def test_runs_without_common_questions_are_refused(run, call, tmp_path):
    rows = write_rows(tmp_path)
    a, _ = run(rows, "random", "--scene", "s0")
    b, _ = run(rows, "random", "--scene", "s1")
    code, _, err = call("compare", a, b, "--anyway")
    assert code == 2
    assert "in common" in err
