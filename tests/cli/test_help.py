"""--help: every command has valid examples, every option has a description, and help is fast."""

import re
import resource
import subprocess
import sys
from functools import cache

import pytest
import rich_click as click
from click.shell_completion import BashComplete
from click.testing import CliRunner
from factories import TREE
from factories.documentation import parse_command

from render_agent import registry
from render_agent.cli.main import cli
from render_agent.cli.shared_options import PANELS
from render_agent.cli.short_help import USUAL_COMMANDS
from render_agent.options import OPTIONS


def commands(command, name="render-agent", parent=None):
    """Yield the path and the object of every command, including the program."""
    context = click.RichContext(command, info_name=name, parent=parent)
    yield context.command_path, command
    for below in command.list_commands(context) if isinstance(command, click.Group) else ():
        yield from commands(command.get_command(context, below), below, context)


COMMANDS = dict(commands(cli))


@pytest.mark.parametrize("name", COMMANDS)
def test_command_examples_parse(name):
    examples = re.findall(r"^ *(render-agent .*)", COMMANDS[name].help, re.MULTILINE)
    assert any(line.startswith(name) or name.split()[-1] in line.split() for line in examples)
    for line in examples:
        parse_command(line)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_has_a_description(name):
    options = [entry for entry in COMMANDS[name].params if isinstance(entry, click.Option)]
    assert all(entry.help and entry.help.endswith((".", ").", "…")) for entry in options)


@cache
def help_page(flag):
    command = [sys.executable, "-m", "render_agent", flag]
    environment = {"COLUMNS": "160", "PATH": "/usr/bin"}
    return subprocess.check_output(command, cwd=TREE, text=True, env=environment)


def test_short_help_fits_a_screen():
    lines = help_page("--help").splitlines()
    assert len(lines) <= 60
    assert max(map(len, lines)) <= 80


def test_short_help_of_commands_is_a_whole_sentence():
    page = help_page("--help")
    for name in USUAL_COMMANDS:
        sentence = COMMANDS[f"render-agent {name}"].help.split("\n\n")[0]
        assert f" {sentence.rstrip('.')}\n" in page, name


def test_examples_fit_80_columns():
    lines = [line.strip() for command in COMMANDS.values() for line in command.help.splitlines()]
    assert max(len(line) for line in lines if line.startswith("render-agent ")) <= 76


@pytest.mark.parametrize("name", registry.names("command"))
def test_examples_are_indented(name):
    page = CliRunner().invoke(cli, [name, "--help"]).output
    _, found, examples = page.partition("Example")
    lines = [line for line in examples.splitlines() if line.strip().startswith("render-agent ")]
    assert bool(lines) == bool(found)
    assert all(line.startswith("   render-agent ") for line in lines)


def test_help_all_lists_every_option_and_command():
    page = help_page("--help-all")
    assert all(heading in page for heading in PANELS.values())
    assert all(f"--{name.replace('_', '-')} " in page for name in OPTIONS)
    assert all(f"│ {name} " in page for name in registry.names("command"))
    assert "130" in page


def test_run_names_are_completed_newest_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = ["20261121T094723_batched", "20261121T094750_single"]
    for folder in ("experiment_logs", "mine"):
        for name in names:
            (tmp_path / folder / name).mkdir(parents=True)
            (tmp_path / folder / name / "config.json").touch()
    completion = BashComplete(cli, {}, "render-agent", "_RENDER_AGENT_COMPLETE")
    for words in (["show"], ["--continue"], ["--output", "mine", "--continue"]):
        items = completion.get_completions(words, "2")
        assert [item.value for item in items if item.type == "plain"] == names[::-1]


def test_help_takes_less_than_a_cpu_second():
    def cpu_seconds():
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    before = cpu_seconds()
    help_page.__wrapped__("--help")
    assert 0 < cpu_seconds() - before < 1
