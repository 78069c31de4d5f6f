"""The README is short, and what it says is so."""

import json
import re

import pytest
from factories.documentation import LINK, README, TREE, blocks, shown_commands, understand
from PIL import Image

import render_agent
from render_agent.questions.rows import load_rows

MOST_LINES = 200
TEXT = README.read_text("utf-8")


def test_it_is_short():
    assert len(TEXT.splitlines()) <= MOST_LINES


def test_it_begins_with_three_sentences_and_a_picture():
    _, first, second, *_ = TEXT.split("\n\n")
    assert len(re.findall(r"\.(?:\s|$)", first)) == 3
    assert re.fullmatch(r"!\[.+\]\(docs/question\.png\)", second)


@pytest.mark.parametrize("line", shown_commands(README))
def test_every_command_that_is_shown_is_understood(line):
    understand(line)


def test_the_three_uses_are_shown():
    shown = "\n".join(shown_commands(README))
    for use in ("--batch --questions", "--ply scenes/room01.ply", "--continue recent"):
        assert f"render-agent {use}" in shown


def test_make_targets_are_told_and_there():
    told = set(re.findall(r"(?:^|`)make ([a-z]+)", TEXT, re.MULTILINE))
    makefile = (TREE / "Makefile").read_text("utf-8")
    there = set(re.findall(r"^([a-z]+):.*## ", makefile, re.MULTILINE))
    assert {"run", "test", "docs"} <= told <= there


def test_files_that_are_named_are_there():
    linked = [place for _, place in LINK.findall(TEXT) if "://" not in place]
    assert len(linked) > 20
    assert not [file for file in linked if not (TREE / file).exists()]


def test_the_pictures_show_something():
    pictures = re.findall(r"!\[[^\]]+\]\((docs/[^)]+\.png)\)", TEXT)
    assert len(pictures) >= 3
    for file in pictures:
        with Image.open(TREE / file) as picture:
            assert picture.convert("RGB").getcolors(100) is None, "it has more colours"


def test_the_questions_that_it_shows_are_read(tmp_path):
    (block,) = (text for text in blocks(README, "") if "my_scans" in text)
    rows = [line for line in block.splitlines() if line.startswith("{")]
    (tmp_path / "questions.jsonl").write_text("\n".join(rows))
    questions = load_rows(tmp_path / "questions.jsonl", "mine")
    assert [question.truth for question in questions] == [
        json.loads(row)["ground_truth"] for row in rows
    ]


def test_its_own_scans_take_ten_lines():
    (block,) = (text for text in blocks(README, "") if "my_scans" in text)
    assert len(block.splitlines()) <= 10


def test_the_names_of_its_python_are_public():
    (block,) = blocks(README, "python")
    compile(block, "README.md", "exec")
    assert set(re.findall(r"render_agent\.(\w+)", block)) <= set(render_agent.__all__)


def test_the_comparison_has_the_version_of_this_program():
    settings = (TREE / "setup.cfg").read_text("utf-8")
    version = re.search(r"^version = (\S+)$", settings, re.MULTILINE)[1]
    head = next(line for line in TEXT.splitlines() if "lmms-eval" in line and line.startswith("|"))
    assert f"| render_agent {version} |" in head
    rows = TEXT.partition(head)[2].split("\n\n")[0].strip().splitlines()
    assert {row.count(" | ") for row in rows[1:]} == {5}
