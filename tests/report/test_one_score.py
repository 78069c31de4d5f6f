"""The score of VSI-Bench's script is the one shown, and everything beside it has the same reading."""

import io
import json
import re
import shutil
from dataclasses import replace
from types import SimpleNamespace

import pytest
from factories.runs import make_questions, play, spread_over_rooms
from factories.states import question, state

from render_agent.dialogue.reply import Action
from render_agent.engines.scripted import ReplayPolicy, ScriptedEngine
from render_agent.report.comparison.compare_runs import compare_runs
from render_agent.report.comparison.run_list import run_row
from render_agent.report.comparison.runs_table import RunGroup, run_rows
from render_agent.report.diagnosis.cause import diagnose
from render_agent.report.diagnosis.model import Cause
from render_agent.report.diagnosis.visibility_pass import Visibility
from render_agent.report.pages.index.index_page import what_to_publish
from render_agent.report.pages.index.runs_page import render_runs_page
from render_agent.report.sentences.findings import score_gains
from render_agent.runs.log.row import is_read_differently
from render_agent.runs.loggers import final_scalars
from render_agent.runs.read import RunData
from render_agent.score.summary import MEAN_NAMES, VSI_BENCH_SCORE, headline, lenient_line
from render_agent.score.tables import changed_table, overall_lines, type_lines
from render_agent.util.console import PlainConsole

# Answers by form; the first of each is read by VSI-Bench's script, the others only by the lenient parser.
NUMBERS, LETTERS = ("3", "(3)"), ("B", "right", "(B)")


def answer_with(folder, number, letter, **options):
    """Run 14 questions in seven scenes whose answers are all correct, in the given form."""
    folder.mkdir()
    questions = spread_over_rooms(make_questions(folder, 14), 7)
    replies = {
        str(n): [json.dumps({"answer": letter if n % 2 else number, "done": True})]
        for n in range(14)
    }
    path, _ = play(folder, questions, ScriptedEngine(ReplayPolicy(replies)), **options)
    return RunData(path)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    in_form = answer_with(folder / "a", NUMBERS[0], LETTERS[0])
    in_words = answer_with(folder / "b", NUMBERS[0], LETTERS[1])
    return in_form, in_words


def test_everything_beside_the_score_has_its_reading(runs):
    in_form, in_words = runs
    assert lenient_line(in_form.saved_results) is None
    results = in_words.saved_results
    assert (results["official_raw"], results["official"], results["not_in_form"]) == (50, 100, 7)
    assert headline(results).score == float(run_row(in_words.path)["official_raw"]) == 50
    assert results["score_by_images"][-1]["score"] == final_scalars(results)["final/score"] == 50
    assert (results["micro"], results["mean_of_types"]) == (50, 50)
    assert 'data-value="50.0"' in render_runs_page(in_words.path.parent)
    (row,) = run_rows([RunGroup("a", [in_words])], "a")
    assert row["official_raw"] == 50
    baseline = results["chance"]["frequency"]["macro"]
    assert score_gains(in_words)["macro"]["difference"] == pytest.approx(50 - baseline)
    assert [line.score for line in type_lines(results)[-1:]] == [0]
    assert overall_lines(results, every=False)[0].score == 50
    rows = {(row["type"], row["score"], row["score_parsed"]) for row in results["questions"]}
    assert rows == {("object_counting", 1, 1), ("object_rel_direction_easy", 0, 1)}
    line = lenient_line(results)
    assert "100.0" in line
    assert "7 answers" in line
    assert results["intervals"]["official"][1] > results["intervals"]["official_raw"][1]


def test_show_prints_other_scores_only_with_all(runs, type_in):
    path = runs[0].path
    short, every = (
        type_in("show", path, *flags, folder=path.parent)[1] for flags in ((), ("--all",))
    )
    assert VSI_BENCH_SCORE in short
    for label in (*MEAN_NAMES.values(), "parsed by lmms-eval", "parsed by vlmevalkit"):
        assert label in every
        assert label not in short


def test_comparison_reports_scores_by_which_its_verdict_differs(runs):
    (pair,) = compare_runs(runs, anyway_option="--anyway")
    assert pair["differences"]["official_raw"]["difference"] == -50
    assert pair["differences"]["official"]["difference"] == 0
    assert pair["parsers"]["lmms-eval"]["difference"] == -50
    (sentence,) = pair["other_verdicts"]
    assert "parsed more leniently" in sentence
    (same,) = compare_runs([runs[0], runs[0]], anyway_option="--anyway")
    assert same["other_verdicts"] == []


@pytest.mark.parametrize(
    ("benchmark", "changes", "words"),
    [
        ("rooms", {}, "For publication"),
        ("rooms", {"status": "partial"}, "Not for publication"),
        ("rooms", {"official": None}, "Not for publication"),
        ("rooms", {"intervals": {}}, None),
        (None, {}, None),
    ],
)
def test_only_complete_benchmarks_are_for_publication(runs, benchmark, changes, words):
    run = runs[0]
    config = run.config if benchmark is None else replace(run.config, benchmark=benchmark)
    text = what_to_publish(SimpleNamespace(config=config, results=run.results | changes))
    assert text is None if words is None else text.startswith(words)


def test_results_of_parsed_answers_are_computed_again(runs, tmp_path):
    """Runs whose types and rows were of parsed answers show the same scores as new ones."""
    path = shutil.copytree(runs[1].path, tmp_path / runs[1].path.name)
    results = json.loads((path / "results.json").read_text())
    del results["not_in_form"]
    results["types"] = {name: {"score": 100, "n": 7} for name in results["types"]}
    for row in results["questions"]:
        row["score"] = row.pop("score_parsed")
    (path / "results.json").write_text(json.dumps(results))
    run = RunData(path)
    assert run.saved_results["types"] == runs[1].saved_results["types"]
    assert run_row(path)["official_raw"] == "50.0"


@pytest.mark.parametrize(
    ("kind", "cells"),
    [
        ("room_size_estimation", ["12 (90 %)", "– (0 %)"]),
        ("object_rel_direction_easy", ["12", "–"]),
    ],
)
def test_changed_numbers_are_listed_with_their_scores(kind, cells):
    sides = {"a": {"answer": "12", "score": 0.9}, "b": {"answer": None, "score": 0.0}}
    entry = {"question_id": "1", "type": kind, "scene": "s", "truth": "12", **sides}
    console = PlainConsole(file=io.StringIO(), width=120)
    console.print(changed_table({"changed": [entry]}))
    assert re.split(r"  +", console.file.getvalue().splitlines()[3].strip())[-2:] == cells


@pytest.mark.parametrize(
    ("form", "text", "answer", "differs"),
    [
        ("letter", "B", "B", False),
        ("letter", "b. right", "B", False),
        ("letter", "right", "B", True),
        ("letter", "A or B", None, True),
        ("letter", "no idea", None, False),
        ("number", "3.0", "3", False),
        ("number", "3 m", "3", False),
        ("number", "about 3", "3", True),
        ("text", "a chair", "a chair", False),
    ],
)
def test_answers_that_the_script_reads_differently(form, text, answer, differs):
    truth = {"letter": "B", "number": "3", "text": "chair"}[form]
    options = ("A. left", "B. right") if form == "letter" else ()
    made = state(
        Action(answer=answer, answer_text=text, done=True),
        max_turns=1,
        answer_form=form,
        options=options,
        ground_truth=truth,
        scan="s.ply",
    )
    assert is_read_differently(made) == differs


def test_right_answer_in_another_form_is_a_cause_of_its_own():
    options = {"answer_form": "letter", "options": ("A. left", "B. right"), "ground_truth": "B"}
    made = state(Action(answer="B", answer_text="right", done=True), **options)
    assert made.question == question(**options)
    diagnosis = diagnose(made, Visibility((), ()), (64, 48), truth="B")
    assert diagnosis.cause is Cause.FORM
