"""The pages of --help: everything has its heading, an example that is understood, and says what is so."""

import re
import resource
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
from factories import TREE

import render_agent
from render_agent import registry
from render_agent.cli.help_page import COMMANDS, ENVIRONMENT, EXIT_CODES, HEADINGS, OTHERS
from render_agent.cli.main import cli
from render_agent.config import OPTIONS
from render_agent.engines.openai.endpoints import KEY_VARIABLES
from render_agent.system.interrupts import INTERRUPTED, TERMINATED


def pages(command, name="render-agent", parent=None):
    """Give every command below one, itself included: its name and its page."""
    settings = command.context_settings  # click keeps what a command's first context has of --help
    context = click.Context(command, info_name=name, parent=parent, **settings)
    yield context.command_path, command.get_help(context)
    for below in command.list_commands(context) if isinstance(command, click.Group) else ():
        yield from pages(command.get_command(context, below), below, context)


PAGES = dict(pages(cli))
MAIN = PAGES["render-agent"]


def sections(page):
    """Return the text below each heading of a page."""
    parts = re.split(r"^(\S[^\n]*):\n", page, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def examples(page):
    """Return the commands that a page shows, without what is said of them."""
    (shown,) = re.findall(r"^ +Examples:\n((?:    .*\n)+)", page, re.MULTILINE)
    lines = [line.strip() for line in shown.splitlines()]
    assert all(line.startswith("render-agent ") for line in lines)
    return lines


@pytest.mark.parametrize("name", PAGES)
def test_every_page_shows_commands_that_are_understood_its_own_among_them(name):
    shown = examples(PAGES[name])
    assert any(line.startswith(name) or name.split()[-1] in line.split() for line in shown)
    for line in shown:
        words = shlex.split(line, comments=True)[1:]
        context = cli.make_context("render-agent", words)
        while rest := [*context._protected_args, *context.args]:
            called, command, words = context.command.resolve_command(context, rest)
            context = command.make_context(called, words, parent=context)
            if not isinstance(command, click.Group):
                break


@pytest.mark.parametrize("name", PAGES)
def test_no_page_has_words_of_click_or_half_a_sentence(name):
    assert not re.search(r" RANGE|INTEGER|\bAUTO\b", PAGES[name])
    assert '[default: ""]' not in PAGES[name]
    assert "..." not in PAGES[name].partition("\n")[2]


def options_of(name):
    """Return the options of the command that has a page."""
    command = cli
    for part in name.split()[1:]:
        command = command.get_command(click.Context(command), part)
    return [entry for entry in command.params if isinstance(entry, click.Option)]


@pytest.mark.parametrize("name", PAGES)
def test_every_option_has_a_sentence(name):
    assert all(entry.help and entry.help.endswith((".", ").", "…")) for entry in options_of(name))


@pytest.mark.parametrize("name", PAGES)
def test_an_option_says_whether_it_may_be_given_again(name):
    again = re.compile(r"may be given (more than once|several times)|give one --option a choice")
    for entry in options_of(name):
        assert bool(again.search(entry.help)) == entry.multiple, entry.name


def test_play_tells_the_benchmark_that_it_asks():
    told = " ".join(sections(PAGES["render-agent play"])["Which questions"].split())
    assert "(default: rooms, or vsibench where its questions or scans are named)." in told
    assert "[default: vsibench]" not in told


def test_every_option_of_a_run_stands_under_the_heading_of_its_group():
    found = sections(MAIN)
    for name, entry in OPTIONS.items():
        below = found[HEADINGS[entry.metadata["group"]]]
        assert re.search(rf"^  --{name.replace('_', '-')}\b", below, re.MULTILINE), name
    others = re.findall(r"^  (?:-h, )?--([a-z-]+)", found[OTHERS], re.MULTILINE)
    assert others == ["continue", "dry-run", "allow-code", "config", "version", "help"]


def test_every_command_stands_under_one_heading_with_a_whole_sentence():
    told = [name for names in COMMANDS.values() for name in names]
    assert sorted(told) == sorted(registry.names("command"))
    found = sections(MAIN)
    for heading, names in COMMANDS.items():
        rows = re.findall(r"^  ([a-z-]+) +(\S(?:.*\n(?:    .*\n)*))", found[heading], re.MULTILINE)
        assert [name for name, _ in rows] == list(names)
        for _, sentence in rows:
            assert sentence.rstrip().endswith(".")
            assert "…" not in sentence.replace("RUN…", "")


def test_the_exit_codes_are_those_of_the_program():
    codes = [code for code, _ in EXIT_CODES]
    assert codes == ["0", "1", "2", str(INTERRUPTED), str(TERMINATED)]
    assert re.findall(r"^  (\d+) ", sections(MAIN)["Exit codes"], re.MULTILINE) == codes


def test_the_environment_that_is_told_is_read():
    told = {name for names, _ in ENVIRONMENT for name in names.split(", ")}
    assert set(KEY_VARIABLES) < told
    sources = "".join(
        path.read_text("utf-8")
        for path in Path(render_agent.__file__).parent.rglob("*.py")
        if path.name != "help_page.py"
    )
    # click's, rich's, huggingface_hub's own
    elsewhere = {"RENDER_AGENT_…", "NO_COLOR", "HF_HUB_OFFLINE"}
    assert {name for name in told if name not in sources} <= elsewhere


def test_a_sentence_ends_at_its_end():
    told = "Do it (as e.g.\nthis), and well. Then more.\n\nAnd more."
    assert registry.first_sentence("Do this.\n\nMore. Of it.") == "Do this."
    assert registry.first_sentence("Do\nthis") == "Do this."
    assert registry.first_sentence(told).startswith("Do it (as e.g.")


def test_help_takes_less_than_a_second_of_a_processor():
    def taken():
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    before = taken()
    command = [sys.executable, "-m", "render_agent", "--help"]
    subprocess.run(command, cwd=TREE, capture_output=True, check=True)
    assert 0 < taken() - before < 1
