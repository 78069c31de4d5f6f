"""The README says what is so: options, commands, files, pictures, exit codes."""

import re
import shlex
from pathlib import Path

import click
import numpy as np
import pytest
from factories.runs import Silent, make_config, make_questions
from PIL import Image

from render_agent.cli.main import INTERRUPTED, TERMINATED, cli
from render_agent.config import OPTIONS
from render_agent.run.runner import start
from render_agent.system.system_libraries import LIBRARIES, SOFTWARE_DRIVER

TREE = Path(__file__).parents[1]
README = (TREE / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"^```\w*\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def option_flag(name):
    return "--" + name.replace("_", "-")


def option_row(entry):
    """Return the row of the README's table that an option should have."""
    declared, default = entry.metadata, entry.default
    values = declared.get("metavar") or "|".join(declared.get("choices", ()))
    if not values and not declared.get("flag"):
        values = "X" if isinstance(default, float) else "N" if isinstance(default, int) else ""
        values = {"image_size": "WxH", "kinds": "LIST"}.get(entry.name, values)
    if isinstance(default, tuple):
        default = ("x" if entry.name == "image_size" else ",").join(map(str, default))
    elif default is None or declared.get("flag"):
        default = ""
    flag = f"{option_flag(entry.name)} {values}".strip().replace("|", "\\|")
    shown = f"{default:g}" if isinstance(default, float) else default
    return f"| `{flag}` | {shown} | {declared['text']} |"


def section(title):
    return README.split(f"\n## {title}\n")[1].split("\n## ")[0]


def test_every_option_stands_in_the_table_with_its_default_and_its_sentence():
    table = [line for line in section("Options").splitlines() if line.startswith("| `--")]
    expected = [option_row(entry) for entry in OPTIONS.values()]
    told, others = table[: len(expected)], table[len(expected) :]
    assert told == expected, "the table should be:\n" + "\n".join(expected)
    flags = {flag for parameter in cli.params for flag in parameter.opts}
    beside = {re.match(r"\| `(--[a-z-]+)", row)[1] for row in others}
    assert beside == flags - {option_flag(name) for name in OPTIONS}


def test_every_option_of_the_command_line_is_told():
    flags = {flag for parameter in cli.params for flag in parameter.opts}
    assert not {flag for flag in flags if f"`{flag}" not in README}


def test_every_command_is_told():
    assert not [name for name in cli.commands if f"render-agent {name}" not in README]


def shown_commands():
    lines = [line for block in BLOCKS for line in block.replace("\\\n", " ").splitlines()]
    commands = [line.removeprefix("$ ") for line in lines]
    return [line for line in commands if line.startswith("render-agent ")]


@pytest.mark.parametrize("line", shown_commands())
def test_every_command_that_is_shown_is_understood(line):
    words = shlex.split(line, comments=True)[1:]
    context = cli.make_context("render-agent", words)
    if rest := [*context._protected_args, *context.args]:
        name, command, words = cli.resolve_command(context, rest)
        command.make_context(name, words, parent=context)


def test_what_is_shown_is_understood_by_name():
    assert len(shown_commands()) >= 8
    with pytest.raises(click.NoSuchOption):
        cli.make_context("render-agent", ["--no-such-option"])


def test_make_targets_are_told_and_there():
    told = set(re.findall(r"(?:^|`)make ([a-z]+)", README, re.MULTILINE))
    there = set(
        re.findall(r"^([a-z]+):.*## ", (TREE / "Makefile").read_text("utf-8"), re.MULTILINE)
    )
    assert {"run", "test", "lint", "bench"} <= told <= there


def test_files_that_are_named_are_there():
    linked = re.findall(r"\]\(([^)#:]+)\)", README)
    assert linked
    assert not [file for file in linked if not (TREE / file).exists()]


def test_the_tree_is_as_told():
    (told,) = (block for block in BLOCKS if block.startswith("render_agent/\n"))
    package, *others = re.split(
        r"^(?=\S)", told.removeprefix("render_agent/\n"), flags=re.MULTILINE
    )
    named = {
        name
        for line in package.splitlines()
        for name in line.split()
        if name.endswith(("/", ".py"))
    }
    assert {name for name in named if not (TREE / "render_agent" / name).exists()} == set()
    folders = {f"{path.parent.name}/" for path in (TREE / "render_agent").glob("*/__init__.py")}
    assert folders - named == set()
    assert all((TREE / line.split()[0]).exists() for line in others)


def test_the_pictures_show_something():
    pictures = re.findall(r"!\[[^\]]+\]\((docs/[^)]+\.png)\)", README)
    assert len(pictures) >= 2
    for file in pictures:
        with Image.open(TREE / file) as picture:
            assert len(np.unique(np.asarray(picture.convert("RGB")).reshape(-1, 3), axis=0)) > 100


def test_the_run_folder_is_as_told(tmp_path):
    run = start(make_config(tmp_path, make_questions(tmp_path, 2), max_turns=2))
    run.go(Silent())
    run.close()
    told = re.findall(r"^ {2}([\w.]+)/? ", section("The run folder"), re.MULTILINE)
    lying = {path.name for path in run.path.iterdir()}
    assert lying <= set(told)
    assert set(told) - lying <= {"run.log", "run.lock"}


def test_system_libraries_are_told():
    told = re.findall(r"^\| (.+?) \| `(.+?)` \|", section("System libraries"), re.MULTILINE)
    known = [(library.name, library.package) for library in (*LIBRARIES, SOFTWARE_DRIVER)]
    assert [(name.strip("`"), package) for name, package in told] == known


def test_exit_codes_are_told():
    told = re.findall(r"^\| (\d+) \|", section("Exit codes"), re.MULTILINE)
    assert told == ["0", "1", "2", str(INTERRUPTED), str(TERMINATED)]
