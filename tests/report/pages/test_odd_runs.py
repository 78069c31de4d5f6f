"""Reports of runs that are out of the ordinary: long names, stress tests, one scene, one turn."""

import json
import shutil

import pytest
from click.testing import CliRunner
from factories.reports import reported
from factories.runs import make_questions, play

from render_agent.cli.main import cli
from render_agent.engines.scripted import ScriptedEngine
from render_agent.report.pages.page import page_of
from render_agent.runs.read import RunData


class Says:
    """Gives the same answer to every question, at once."""

    def __init__(self, answer):
        self.answer = answer

    def reply(self, request):
        return json.dumps({"answer": self.answer, "done": True})


def answered(folder, answer, questions="rooms", **options):
    """Run questions that all get this answer; return the run folder."""
    path, _ = play(folder, questions, ScriptedEngine(Says(answer)), max_turns=2, **options)
    return RunData(path)


def shown_to(*given, **options):
    """Report a run in which every question gets the same answer; return its index."""
    return reported(answered(*given, **options))


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """The report of a run with nothing odd: a count, and left or right."""
    folder = tmp_path_factory.mktemp("plain")
    return shown_to(folder, "3", make_questions(folder, 2))


def sided(folder):
    """Write a question of left and right about a made room, whose truth is B, right."""
    questions = make_questions(folder, 2)
    questions.write_text(questions.read_text().splitlines()[1] + "\n")
    return questions


def test_a_long_id_makes_no_page_wider(page, tmp_path):
    questions = make_questions(tmp_path, 1)
    row = json.loads(questions.read_text())
    name = "x" * 300
    questions.write_text(json.dumps(row | {"id": name}) + "\n")
    index = shown_to(tmp_path, "3", questions)
    for file in (index, index.parent / page_of(name)):
        page.goto(file.as_uri())
        for width in (390, 1400):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth") == width, file.name


def test_a_mirrored_question_says_what_is_right_in_the_mirror(page, plain, tmp_path):
    index = shown_to(tmp_path, "A", sided(tmp_path), pictures="mirrored")
    page.goto((index.parent / page_of("1")).as_uri())
    facts = dict(
        zip(
            page.locator(".facts dt").all_inner_texts(),
            page.locator(".facts dd").all_inner_texts(),
            strict=True,
        )
    )
    assert (facts["Result"], facts["Why"]) == ("wrong", "right")  # against the truth, in the mirror
    assert (facts["Truth"], facts["Truth in the mirrored room"]) == ("B", "A")
    (stamp,) = page.locator(".stamps li").all_inner_texts()
    assert "--pictures mirrored" in stamp
    page.goto((plain.parent / page_of("1")).as_uri())
    assert "Truth in the mirrored room" not in page.inner_text(".facts")
    assert page.locator(".stamps").count() == 0


@pytest.mark.parametrize(
    ("options", "why"), [({"views": "none"}, "nothing"), ({"pictures": "black"}, "pictures")]
)
def test_why_nobody_can_tell_is_said(page, tmp_path, options, why):
    index = shown_to(tmp_path, "99", id=("0",), benchmark="rooms", **options)
    page.goto((index.parent / page_of("0")).as_uri())
    told = page.locator(".facts dd").last.inner_text()
    assert told.startswith("unknown: ")
    assert why in told
    page.goto(index.as_uri())
    assert "no interval" in page.inner_text(".headline")


def test_a_reply_is_shown_once_unless_more_is_asked_for(page, plain):
    page.goto((plain.parent / page_of("0")).as_uri())
    assert page.locator(".turn .reply").first.is_visible()
    assert not page.locator(".turn .json").first.is_visible()
    page.locator(".turn .lines summary").first.click()
    lines = page.locator(".turn .json").first
    assert lines.is_visible()
    assert json.loads(lines.inner_text()) == {"answer": "3", "done": True}


def test_what_several_runs_are_stamped_with_is_said_once(page, tmp_path):
    questions = make_questions(tmp_path, 2)
    runs = [
        answered(tmp_path, "3", questions, limit=1, pictures=pictures).path
        for pictures in ("real", "black", "noise")
    ]
    said = CliRunner().invoke(cli, ["compare", *map(str, runs), "--page"])
    assert said.exit_code == 0, said.output
    index = runs[0].parent / "compare" / "-".join(run.name for run in runs) / "index.html"
    assert str(index) in said.output
    page.goto(index.as_uri())
    stamps = page.locator(".stamps li").all_inner_texts()
    expected = [("A, B, C: ", "PARTIAL"), ("B: ", "--pictures black"), ("C: ", "--pictures noise")]
    for stamp, (runs, said) in zip(stamps, expected, strict=True):
        assert stamp.startswith(runs)
        assert said in stamp


def test_a_run_is_never_taken_for_the_folder_of_pages(tmp_path):
    questions = make_questions(tmp_path, 1)
    runs = [answered(tmp_path, "3", questions) for _ in range(2)]
    before = sorted(path.name for path in runs[0].path.iterdir())
    for name in (runs[0].name, str(runs[0].path), "recent"):
        words = ["compare", "--page", name, runs[1].name, "--output", str(runs[0].path.parent)]
        refused = CliRunner().invoke(cli, words)
        assert "put --page last" in str(refused.exception)
    assert sorted(path.name for path in runs[0].path.iterdir()) == before


def test_scans_and_pictures_that_are_gone_are_told_of(tmp_path):
    folder = answered(tmp_path, "3", make_questions(tmp_path, 2))
    words = ["report", str(folder.path), "--processes", "1"]
    whole_run = CliRunner().invoke(cli, words)
    assert (whole_run.exit_code, "missing" in whole_run.output) == (0, False)
    (tmp_path / "room.ply").unlink()
    shown = len(list((folder.path / "views").rglob("*.png")))
    shutil.rmtree(folder.path / "report")
    shutil.rmtree(folder.path / "views")
    said = CliRunner().invoke(cli, words)
    assert said.exit_code == 0, said.output
    assert "1 of 1 scans cannot be read" in said.output
    assert f"{shown} of {shown} pictures are missing from views/" in said.output


def test_compared_runs_of_one_name_are_told_apart(tmp_path):
    folder = answered(tmp_path, "3", make_questions(tmp_path, 2))
    other = tmp_path / "other" / folder.name
    shutil.copytree(folder.path, other)
    said = CliRunner().invoke(cli, ["compare", str(folder.path), str(other), "--json"])
    found = json.loads(said.stdout)
    assert (found["a"], found["b"]) == (str(folder.path), str(other))
