"""Tests of reports of unusual runs: long names, stress tests, one scene, one turn."""

import json
import shutil

import pytest
from click.testing import CliRunner
from factories.reports import build_index
from factories.runs import make_questions, play

from render_agent.cli.main import cli
from render_agent.engines.scripted import ScriptedEngine
from render_agent.report.pages.page import page_of
from render_agent.runs.read import RunData


class ConstantPolicy:
    """Gives the same answer to every question in the first turn."""

    def __init__(self, answer):
        self.answer = answer

    def reply(self, request):
        return json.dumps({"answer": self.answer, "done": True})


def run_with_answer(folder, answer, questions="rooms", **options):
    """Run questions with the same answer and return the run."""
    path, _ = play(
        folder, questions, ScriptedEngine(ConstantPolicy(answer)), max_turns=2, **options
    )
    return RunData(path)


def report_of(*arguments, **options):
    """Return the index page of the report of a run with the same answer to every question."""
    return build_index(run_with_answer(*arguments, **options))


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """Return the report of an ordinary run: a counting and a left/right question."""
    folder = tmp_path_factory.mktemp("plain")
    return report_of(folder, "3", make_questions(folder, 2))


def left_right_question(folder):
    """Write a left/right question about a synthetic room; its ground truth is B (right)."""
    questions = make_questions(folder, 2)
    questions.write_text(questions.read_text().splitlines()[1] + "\n")
    return questions


def test_long_ids_do_not_widen_the_page(page, tmp_path):
    questions = make_questions(tmp_path, 1)
    row = json.loads(questions.read_text())
    name = "x" * 300
    questions.write_text(json.dumps(row | {"id": name}) + "\n")
    index = report_of(tmp_path, "3", questions)
    for file in (index, index.parent / page_of(name)):
        page.goto(file.as_uri())
        for width in (390, 1400):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth") == width, file.name


def test_mirrored_question_shows_both_ground_truths(page, plain, tmp_path):
    index = report_of(tmp_path, "A", left_right_question(tmp_path), image_stress="mirrored")
    page.goto((index.parent / page_of("1")).as_uri())
    facts = dict(
        zip(
            page.locator(".facts dt").all_inner_texts(),
            page.locator(".facts dd").all_inner_texts(),
            strict=True,
        )
    )
    # the score uses the original ground truth, the cause that of the mirrored room
    assert (facts["Result"], facts["Cause"]) == ("wrong", "score at least 50 %")
    assert (facts["Ground truth"], facts["Ground truth in the mirrored room"]) == ("B", "A")
    (stamp,) = page.locator(".stamps li").all_inner_texts()
    assert "--image-stress mirrored" in stamp
    page.goto((plain.parent / page_of("1")).as_uri())
    assert "mirrored" not in page.inner_text(".facts")
    assert page.locator(".stamps").count() == 0


@pytest.mark.parametrize(
    ("options", "reason"), [({"views": "none"}, "no images"), ({"image_stress": "black"}, "scene")]
)
def test_reason_for_an_unknown_cause(page, tmp_path, options, reason):
    index = report_of(tmp_path, "99", id=("0",), benchmark="rooms", **options)
    page.goto((index.parent / page_of("0")).as_uri())
    cause = page.locator(".facts dd").last.inner_text()
    assert cause.startswith("unknown: ")
    assert reason in cause
    page.goto(index.as_uri())
    assert "no confidence interval" in page.inner_text(".headline")


def test_formatted_json_is_collapsed(page, plain):
    page.goto((plain.parent / page_of("0")).as_uri())
    assert page.locator(".turn .reply").first.is_visible()
    assert not page.locator(".turn .json").first.is_visible()
    page.locator(".turn .lines summary").first.click()
    lines = page.locator(".turn .json").first
    assert lines.is_visible()
    assert json.loads(lines.inner_text()) == {"answer": "3", "done": True}


def test_equal_banners_of_several_runs_are_merged(page, tmp_path):
    questions = make_questions(tmp_path, 2)
    runs = [
        run_with_answer(tmp_path, "3", questions, limit=1, image_stress=images).path
        for images in ("real", "black", "noise")
    ]
    result = CliRunner().invoke(cli, ["compare", *map(str, runs), "--page"])
    assert result.exit_code == 0, result.output
    index = runs[0].parent / "compare" / "-".join(run.name for run in runs) / "index.html"
    assert str(index) in result.output
    page.goto(index.as_uri())
    stamps = page.locator(".stamps li").all_inner_texts()
    expected = [
        ("A, B, C: ", "PARTIAL"),
        ("B: ", "--image-stress black"),
        ("C: ", "--image-stress noise"),
    ]
    for stamp, (letters, text) in zip(stamps, expected, strict=True):
        assert stamp.startswith(letters)
        assert text in stamp


def test_run_is_not_used_as_the_page_folder(tmp_path):
    questions = make_questions(tmp_path, 1)
    runs = [run_with_answer(tmp_path, "3", questions) for _ in range(2)]
    before = sorted(path.name for path in runs[0].path.iterdir())
    for name in (runs[0].name, str(runs[0].path), "recent"):
        arguments = ["compare", "--page", name, runs[1].name, "--output", str(runs[0].path.parent)]
        refusal = CliRunner().invoke(cli, arguments)
        assert "--page" in str(refusal.exception)
    assert sorted(path.name for path in runs[0].path.iterdir()) == before


def test_report_names_scans_and_images_it_lacks(tmp_path):
    folder = run_with_answer(tmp_path, "3", make_questions(tmp_path, 2))
    arguments = ["report", str(folder.path), "--processes", "1"]
    intact = CliRunner().invoke(cli, arguments)
    assert (intact.exit_code, "missing" in intact.output) == (0, False)
    (tmp_path / "room.ply").unlink()
    num_images = len(list((folder.path / "views").rglob("*.png")))
    shutil.rmtree(folder.path / "report")
    shutil.rmtree(folder.path / "views")
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.output
    assert "1 of 1 scans cannot be read" in result.output
    assert f"{num_images} of {num_images} images are missing from views/" in result.output


def test_compared_runs_with_the_same_name(tmp_path):
    folder = run_with_answer(tmp_path, "3", make_questions(tmp_path, 2))
    copy = tmp_path / "other" / folder.name
    shutil.copytree(folder.path, copy)
    result = CliRunner().invoke(cli, ["compare", str(folder.path), str(copy), "--json"])
    comparison = json.loads(result.stdout)
    assert (comparison["a"], comparison["b"]) == (str(folder.path), str(copy))
