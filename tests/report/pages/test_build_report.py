"""Tests of the report on disk: links resolve, and it can be rebuilt at any time."""

import errno
import json
import shutil
from urllib.parse import unquote

import pytest
from factories.reports import (
    assert_references_resolve,
    build_index,
    complete_run,
    run_hostile,
    run_rooms,
)
from factories.runs import SMALL, make_questions, play, walking_engine
from factories.scenes import room, write_ply

from render_agent.cli.main import cli
from render_agent.errors import RunLogError
from render_agent.options import RunConfig
from render_agent.report.pages.build import build_report
from render_agent.report.pages.page import page_of
from render_agent.runs.read import RunData
from render_agent.tasks.question_types import type_label


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = run_rooms(tmp_path_factory.mktemp("built"), limit=6, max_turns=3)
    build_index(folder)
    return folder


def contents(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_links_and_images_resolve_inside_the_run(run):
    report = run.path / "report"
    pages = [*report.rglob("*.html")]
    assert len(pages) == 2 + 6  # with that about the answers
    images = 0
    for page in pages:
        references = assert_references_resolve(page).references
        images += sum(tag == "img" for tag, _, _ in references)
        files = [
            (page.parent / unquote(value.partition("#")[0])).resolve() for *_, value in references
        ]
        assert all(file.is_relative_to(run.path) for file in files)
    assert images >= 6 * 2


def test_report_replaces_modified_files_and_links(run, tmp_path):
    report = run.path / "report"
    before = contents(report)
    for name in ("evil.html", "assets/evil.js", "questions/gone.html"):
        (report / name).write_text("laid('by-a-stranger')")
    next((report / "scenes3d").iterdir()).write_text("alert(1)")
    build_report(run, processes=1)
    assert contents(report) == before
    victim = tmp_path / "outside"
    victim.mkdir()
    (victim / "kept.txt").write_text("mine")
    shutil.rmtree(report)
    report.symlink_to(victim)
    build_report(run, processes=1)
    assert not report.is_symlink()
    assert contents(report) == before
    assert contents(victim) == {"kept.txt": b"mine"}
    assert not [path for path in run.path.iterdir() if path.name.startswith(".report")]


def test_failed_build_keeps_the_previous_report(run, monkeypatch):
    report = run.path / "report"
    before = contents(report)
    monkeypatch.setattr("render_agent.report.pages.build.write_index", full_disk)
    with pytest.raises(RunLogError):
        build_report(run, processes=1)
    assert contents(report) == before
    assert not [path for path in run.path.iterdir() if path.name.startswith(".report")]


def test_failed_copy_of_a_style_sheet_names_the_reason(run, monkeypatch, tmp_path):
    (tmp_path / "report.css").symlink_to("missing")
    monkeypatch.setattr("render_agent.report.pages.page.ASSETS", tmp_path)
    with pytest.raises(RunLogError, match=r"/report: No such file or directory"):
        build_report(run, processes=1)


def full_disk(run, diagnoses, pages):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_report_is_reproducible_with_several_processes(run):
    report = run.path / "report"
    before = contents(report)
    build_report(run, processes=2)
    assert contents(report) == before


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    folder = run_hostile(tmp_path_factory.mktemp("hostile"))
    build_index(folder)
    return folder


def test_hostile_ids_stay_inside_the_report(hostile):
    report = hostile.path / "report"
    for question in hostile.questions:
        page = report / page_of(question.id)
        assert page.is_file()
        assert page.resolve().parent == report / "questions"


def test_questions_js_is_ascii_and_matches_the_results(hostile):
    text = (hostile.path / "report" / "questions.js").read_bytes().decode("ascii")
    data = json.loads(text.removeprefix("window.REPORT = ").removesuffix(";\n"))
    column_index = {name: index for index, name in enumerate(data["columns"])}
    rows = hostile.saved_results["questions"]
    assert len(rows) == len(data["rows"]) == 3
    for row, compact in zip(rows, data["rows"], strict=True):
        assert compact[column_index["question_id"]] == row["question_id"]
        assert compact[column_index["score"]] == 100 * row["score"]
        for name in ("scene", "status"):
            assert compact[column_index[name]] == row[name]
        assert compact[column_index["type"]] == type_label(row["type"])


def test_run_in_progress(tmp_path):
    questions = make_questions(tmp_path, 6)
    path, _ = play(tmp_path, questions, walking_engine(6))
    finished = RunData(path)
    assert "INTERRUPTED" not in build_index(finished, diagnose=False).read_text("utf-8")
    (path / "results.json").unlink()
    (path / "results.csv").unlink()
    lines = (path / "turns.jsonl").read_bytes().splitlines(keepends=True)
    lines_so_far = [line for line in lines if json.loads(line)["turn"] < 3]
    (path / "turns.jsonl").write_bytes(b"".join(lines_so_far) + lines[-1][:40])
    index = build_index(RunData(path))
    stamp = "INTERRUPTED: 4 of 6 questions done"  # questions 2 and 5 would have finished in the fourth turn
    for page in [index, *index.parent.glob("questions/*.html")]:
        assert stamp in page.read_text("utf-8")


def test_run_without_turns(tmp_path):
    questions = make_questions(tmp_path, 2)
    path, _ = play(tmp_path, questions, walking_engine(2))
    unit = '<span class="unit">%'
    assert unit in build_index(RunData(path), diagnose=False).read_text("utf-8")
    for name in ("results.json", "turns.jsonl"):
        (path / name).unlink()
    page = build_index(RunData(path)).read_text("utf-8")
    assert "INTERRUPTED: 0 of 2" in page
    assert unit not in page


def test_command_prints_the_path_of_the_report(run, capfd):
    cli.main(
        ["report", run.name, "--output", str(run.path.parent), "--no-diagnosis"],
        standalone_mode=False,
    )
    captured = capfd.readouterr()
    assert captured.out.strip() == str(run.path / "report" / "index.html")


def test_single_question_without_ground_truth(tmp_path):
    write_ply(tmp_path / "room.ply", *room())
    options = {"ply": str(tmp_path / "room.ply"), "question": "What is red?"}
    folder = complete_run(RunConfig(output=str(tmp_path / "runs"), max_turns=2, **options, **SMALL))
    page = build_index(folder).read_text("utf-8")
    assert "What is red?" in page
    assert "<dt>Ground truth</dt>" in page
    assert "<dt>Score</dt>" not in page


@pytest.fixture(scope="module")
def single(tmp_path_factory):
    """The run of one question about one scan."""
    folder = tmp_path_factory.mktemp("single")
    write_ply(folder / "room.ply", *room())
    options = {"ply": str(folder / "room.ply"), "question": "How many boxes are there?"}
    return complete_run(RunConfig(**SMALL | options, output=str(folder / "runs")))


def test_report_of_one_question_is_its_page(single):
    index = build_index(single)
    assert [page.name for page in index.parent.rglob("*.html")] == ["index.html"]
    references = assert_references_resolve(index).references
    assert sum(tag == "img" for tag, _, _ in references) >= len(single.states[0].views)
    page = index.read_text("utf-8")
    assert "<h1" in page
    assert "How many boxes are there?" in page.partition("</h1>")[0]
    assert page.count('class="turn"') == len(single.states[0].turns)
    assert "Temperature" in page
    for empty in ("95 % CI", "Filter", "questions.js", "All questions"):
        assert empty not in page


def test_page_of_one_question_follows_the_run(single, tmp_path):
    path = shutil.copytree(single.path, tmp_path / single.name)
    lines = (path / "turns.jsonl").read_bytes().splitlines(keepends=True)
    (path / "turns.jsonl").write_bytes(b"".join(lines[:1]))
    for name in ("results.json", "results.csv"):
        (path / name).unlink()
    page = build_index(RunData(path)).read_text("utf-8")
    assert "INTERRUPTED" in page
    assert "assets/live.js" in page
    assert "assets/live.js" not in build_index(single).read_text("utf-8")
