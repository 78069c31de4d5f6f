"""Terminal output and logs: text from outside cannot control the terminal, forge log entries or break commands."""

import json
import logging
import shutil
import sys
from pathlib import Path

import pytest
from factories.runs import make_questions, play
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table

from render_agent.engines.scripted import ReplayPolicy, ScriptedEngine
from render_agent.errors import RunLogError
from render_agent.runs.log.program_log import program_log
from render_agent.util.atomic_files import read_json, read_lines
from render_agent.util.console import plain_console
from render_agent.util.safe_parse import MAX_LINE_BYTES, parse_json, read_bounded
from render_agent.util.sanitize import (
    escape_line,
    escape_name,
    escape_unsafe,
    is_plain,
    printable_json,
)

COMMANDING = [
    "\x1b[2J\x1b[H", "\x1b]0;title\x07", "\x9b2J", "\x1b]52;c;ZXZpbA==\x07", "\x08\x08\x08", "\rfake",
    "\x00", "\x7f", "\u202eevil", "\u2066x", "\u2028", "\ud800", "\U000e0041",
]  # fmt: skip

MARKUP = "[/red] [bold]x[/] [link=http://evil.example]y[/link] :warning: [unclosed"


@pytest.mark.parametrize("text", COMMANDING)
def test_control_characters_are_escaped(text):
    escaped = escape_unsafe(f"a{text}b")
    assert escaped.encode().decode() == escaped
    assert not [sign for sign in escaped if not sign.isprintable()]
    assert escaped.startswith("a")
    assert "\\u" in escaped or "\\b" in escaped or "\\r" in escaped
    assert not is_plain(text)


@given(st.text())
def test_visible_text_is_unchanged(text):
    escaped = escape_unsafe(text)
    assert escape_unsafe(escaped) == escaped
    assert is_plain(escape_name(text))
    assert "\n" not in escape_line(text)
    assert json.loads(printable_json([text, {text: text}])) == [text, {text: text}]
    assert escape_unsafe(printable_json(text)) == printable_json(text)


def test_ordinary_text_is_unchanged():
    text = "Größe 3 m²: “schön”, 漢字, עברית, हिन्दी, 👩‍🚀\n\tnext"
    assert escape_unsafe(text) == text


def test_console_does_not_interpret_markup(capsys):
    console = plain_console()
    console.width = 200
    table = Table(title=f"T {MARKUP} \x1b[2J")
    table.add_column("c \x9b2J")
    table.add_row(f"{MARKUP} \u202e")
    console.print(f"{MARKUP} \x1b]0;x\x07", soft_wrap=True)
    console.print(table)
    console.rule(f"{MARKUP} \x1b[2J")
    out = capsys.readouterr().out
    assert out.count(MARKUP) == 4
    assert not [sign for sign in out if sign != "\n" and not sign.isprintable()]


HOSTILE = "\x1b]0;owned\x07 [/red] \r\nerror: all is lost\u202e \x9b2J"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A run whose question, option and reply contain terminal control sequences."""
    folder = tmp_path_factory.mktemp("hostile")
    questions = make_questions(folder, 2)
    rows = [json.loads(line) for line in questions.read_text().splitlines()]
    rows[0]["question"] = f"How many? {HOSTILE}"
    rows[1]["options"] = [f"A. {HOSTILE}", "B. right"]
    rows[0]["id"] = "[/red] [unclosed"
    questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    replies = [HOSTILE, json.dumps({"answer": f"3 {HOSTILE}", "done": True})]
    return play(folder, questions, ScriptedEngine(ReplayPolicy({"*": replies})), max_turns=3)[0]


def assert_printable(text):
    assert not [sign for sign in text if sign != "\n" and not sign.isprintable()]


@pytest.mark.parametrize(
    "arguments",
    [
        ("show", "{run}"), ("show", "{run}", "1"), ("show", "{run}", "[/red] [unclosed"), ("ls",),
        ("show", "{run}", "1", "--json"), ("show", "{run}", "--json"),
        ("rescore", "{run}"), ("diagnose", "{run}"), ("show", "{run}", "\x1b[2J"),
        ("compare", "{run}", "{copy}"),
    ],
)  # fmt: skip
def test_commands_escape_control_characters(hostile, arguments, type_in):
    copy = hostile.parent / "copies" / hostile.name
    if not copy.exists():
        shutil.copytree(hostile, copy)
    paths = {"{run}": str(hostile), "{copy}": str(copy)}
    given_words = [paths.get(word, word) for word in arguments]
    code, out, err = type_in(*given_words, "--output", hostile.parent, folder=hostile.parent)
    assert code == (2 if arguments[-1] == "\x1b[2J" else 0), err
    assert_printable(out)
    assert_printable(err)
    if arguments[2:] == ("1", "--json"):
        assert json.loads(out)[0]["reply"] == HOSTILE


def test_log_entries_cannot_be_forged(tmp_path):
    file = tmp_path / "run.log"
    logger = logging.getLogger("render_agent.made")
    with program_log(file, verbose=False):
        logger.info("a reply: %s", "x\n2026-01-01 00:00:00,000 ERROR render_agent: forged\x1b[2J")
        try:
            raise ValueError("first\n2026-01-01 00:00:00,000 ERROR render_agent: forged")
        except ValueError:
            logger.exception("it failed")
    lines = file.read_text("utf-8").splitlines()
    entries = [line for line in lines if not line.startswith("  ")]
    assert len(entries) == 2
    assert [line for line in lines if "forged" in line] == [
        line for line in lines if line.startswith("  ") and "forged" in line
    ]
    assert any(line.startswith("  Traceback") for line in lines)
    assert_printable(file.read_text("utf-8"))


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 50_000, "[" * 5000 + "]" * 5000])
def test_depth_is_bounded(text, tmp_path):
    with pytest.raises(ValueError, match=r".+"):
        parse_json(text)
    file = tmp_path / "results.json"
    file.write_text(text)
    with pytest.raises(RunLogError, match="cannot read"):
        read_json(file)
    file.write_text(text + "\n{}\n")
    with pytest.raises(RunLogError, match=r"line 1 of .* is not JSON"):
        read_lines(file)


def test_sizes_are_bounded(tmp_path, monkeypatch):
    file = tmp_path / "turns.jsonl"
    file.write_bytes(b"{}\n" + b" " * 999 + b"{}\n")
    assert len(read_lines(file)[0]) == 2
    with pytest.raises(ValueError, match="more than 1,000 bytes"):
        read_bounded(file, 1000)
    monkeypatch.setattr("render_agent.util.atomic_files.MAX_LINE_BYTES", 500)
    with pytest.raises(RunLogError, match=r"line 2 of .* 500 bytes"):
        read_lines(file)
    assert MAX_LINE_BYTES >= 1 << 20


def test_endless_device_is_refused(monkeypatch):
    monkeypatch.setattr("render_agent.util.safe_parse.MAX_PIPED_BYTES", 1 << 20)
    with pytest.raises(ValueError, match="it has more than 1,048,576 bytes"):
        read_bounded(Path("/dev/zero"))


def test_huge_numbers_do_not_crash():
    with pytest.raises(ValueError, match="digits"):
        parse_json("9" * (sys.get_int_max_str_digits() + 1))
