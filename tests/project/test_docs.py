"""The pages of docs/ and CONTRIBUTING.md say what is so: options, commands, files, names, parts, figures."""

import ast
import importlib.util
import json
import re
import sys
from configparser import ConfigParser

import click
import pytest
import yaml
from factories.documentation import (
    DOCS,
    LINK,
    PAGES,
    README,
    TREE,
    blocks,
    read,
    section,
    shown_commands,
    understand,
)
from factories.runs import Silent, make_config, make_questions

from render_agent import registry
from render_agent.cli.main import cli
from render_agent.config import OPTIONS
from render_agent.runs.runner import start_run
from render_agent.system.interrupts import INTERRUPTED, TERMINATED
from render_agent.system.system_libraries import LIBRARIES, SOFTWARE_DRIVER
from scripts.house import LEVELS

ARCHITECTURE = read("architecture.md")
CONTRIBUTING = (TREE / "CONTRIBUTING.md").read_text("utf-8")

by_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def load_script(name):
    """Return a script of scripts/ as a module."""
    spec = importlib.util.spec_from_file_location(name, TREE / "scripts" / f"{name}.py")
    module = sys.modules.setdefault(name, importlib.util.module_from_spec(spec))
    spec.loader.exec_module(module)
    return module


def test_every_room_of_the_way_has_a_level():
    (drawn,) = re.findall(r"^## The way of the data\n+```\n(.*?)^```$", ARCHITECTURE, re.M | re.S)
    named = {name for line in drawn.splitlines() for name in line[72:].split()}
    rooms = {room for level in LEVELS for room in level.split()}
    assert {"cli", "config", "questions", "scene", "dialogue", "observation", "render"} <= named
    assert {"engines", "agents", "runs", "score", "analysis"} <= named
    assert named <= rooms


def test_modules_that_the_page_on_security_names_are_there():
    named = re.findall(r"`([a-z_/]+\.py)(?:: (\w+))?`", read(TREE / "docs" / "security.md"))
    modules = [
        (place, symbol) for place, symbol in named if not place.split("/")[-1].startswith("test_")
    ]
    assert len(modules) >= 20
    for place, symbol in modules:
        assert symbol in (TREE / "render_agent" / place).read_text("utf-8"), (place, symbol)


@by_page
def test_files_that_are_linked_are_there(page):
    links = [(name, place) for name, place in LINK.findall(read(page)) if "://" not in place]
    assert not [place for _, place in links if not (page.parent / place).exists()]


@by_page
def test_every_table_has_its_head(page):
    """A blank line within a table ends it: the rows below it are shown as text."""
    words = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.M | re.S)
    for first, second in re.findall(r"(?<=\n)\n(\|.*)\n(.*)", words):
        assert re.fullmatch(r"\|[-:| ]+\|", second), first


@by_page
def test_names_that_are_linked_are_in_their_files(page):
    for name, place in LINK.findall(read(page)):
        if not (re.fullmatch(r"`\w+`", name) and place.endswith(".py")):
            continue
        tree = ast.parse((page.parent / place).read_text("utf-8"))
        assert name.strip("`") in {getattr(node, "name", None) for node in tree.body}, name


def test_tests_that_are_named_are_in_their_files():
    named = re.findall(r"\[(test_\w+\.py)\]\(([^)]+)\) `(test_\w+)`", ARCHITECTURE)
    assert len(named) >= 7
    for _, place, test in named:
        source = (TREE / "docs" / place).read_text("utf-8")
        assert f"\ndef {test}(" in source, test


@by_page
def test_every_command_that_is_shown_is_understood(page):
    """Those of docs/extending/ need the packages that are shown beside them: tests/extending/ types them."""
    if page.parent.name != "extending":
        for line in shown_commands(page):
            understand(line)


def test_many_commands_are_shown():
    assert sum(len(shown_commands(page)) for page in PAGES) > 100
    with pytest.raises(click.NoSuchOption):
        understand("render-agent --no-such-option")


def test_commands_in_a_line_are_understood():
    pages = [page for page in PAGES if page.name != "python.md"]  # docstrings name options alone
    lines = {line for page in pages for line in re.findall(r"`(render-agent [^`]+)`", read(page))}
    assert len(lines) >= 10
    for line in lines - {"render-agent --help"}:  # it ends while it is read
        try:
            understand(line)
        except click.MissingParameter:
            assert len(line.split()) == 2, line  # the name of a command alone


def test_options_that_are_named_exist():
    """In words and tables, too: `--limit`, `--views none`; those of other programs stand in blocks."""
    known = {"--help"}
    commands = [cli]
    while commands:
        command = commands.pop()
        known |= {flag for entry in command.params for flag in (*entry.opts, *entry.secondary_opts)}
        if isinstance(command, click.Group):
            context = click.Context(command)
            commands += [command.get_command(context, n) for n in command.list_commands(context)]
    others = {
        "--strict",
        "--no-deps",
        "--wheel-dir",
        "--log-dir",
        "--times",
        "--output",
        "--reasoning-config",
        "--seconds",
    }
    for page in PAGES:
        named = set(re.findall(r"(?<=`)(--[a-z][a-z-]*[a-z])", read(page)))
        assert not named - known - others, page.name


def test_generated_pages_are_fresh():
    stale = load_script("reference").stale_pages()
    assert not stale, f"run scripts/reference.py: {[page.name for page in stale]} are stale"


def test_the_reference_has_every_option_and_command():
    """Read without the script that writes it."""
    options = read("reference/options.md")
    for name, entry in OPTIONS.items():
        (row,) = re.findall(rf"^\| `--{name.replace('_', '-')}[ `].*$", options, re.MULTILINE)
        assert f"`RENDER_AGENT_{name.upper()}`" in row
        assert entry.metadata["text"].replace("|", "\\|") in row
        if isinstance(entry.default, str | int | float) and not isinstance(entry.default, bool):
            assert f"| {entry.default:g} |" in row if isinstance(entry.default, float) else f"| {entry.default} |" in row  # fmt: skip
    flags = {flag for parameter in cli.params for flag in parameter.opts}
    assert not {flag for flag in flags if f"`{flag}" not in options}
    commands = re.findall(
        r"^### render-agent (.+)$", read("reference/command-line.md"), re.MULTILINE
    )
    assert sorted(commands) == sorted([*registry.names("command"), "bench verifiers"])


def test_a_stale_part_is_found():
    reference = load_script("reference")
    page = "<!-- generated: exit-codes -->\nold\n<!-- end of generated -->\n"
    assert "| 143 |" in reference.generated(page)
    assert reference.generated(reference.generated(page)) == reference.generated(page)
    with pytest.raises(KeyError):
        reference.generated(page.replace("exit-codes", "no-such-part"))


def keys_told(title):
    """Return the keys that a table of the run folder's page names, and those that need not be there."""
    rows = re.findall(r"^\| (`.+?) \| (.+) \|$", section("reference/run-folder.md", title), re.M)
    keys = [(key, words) for cell, words in rows for key in re.findall(r"`(\w+)`", cell)]
    assert len({key for key, _ in keys}) == len(keys)
    return {key for key, _ in keys}, {key for key, words in keys if words.startswith("only ")}


def assert_told(told, there):
    names, optional = told
    assert there <= names
    assert names - there <= optional


def test_the_run_folder_is_as_told(tmp_path):
    run = start_run(make_config(tmp_path, make_questions(tmp_path, 2), max_turns=2))
    run.go(Silent())
    run.close()
    told = re.findall(
        r"^ {2}([\w.]+)/? ", section("reference/run-folder.md", "Files"), re.MULTILINE
    )
    lying = {path.name for path in run.path.iterdir()}
    assert lying <= set(told)
    assert set(told) - lying <= {"run.log", "run.lock", "run.owner"}
    config = json.loads((run.path / "config.json").read_text())
    assert_told(keys_told("`config.json`"), set(config))
    for name in ("questions.jsonl", "turns.jsonl"):
        for line in (run.path / name).read_text().splitlines():
            assert_told(keys_told(f"`{name}`"), set(json.loads(line)))
    results = json.loads((run.path / "results.json").read_text())
    assert_told(keys_told("`results.json`"), set(results))
    row, optional = keys_told("A row of the results")
    assert row - optional == set(results["questions"][0])
    assert row - optional == set((run.path / "results.csv").read_text().splitlines()[0].split(","))


def test_system_libraries_are_told():
    told = re.findall(
        r"^\| (.+?) \| `(.+?)` \|", section("how-to/install.md", "System libraries"), re.MULTILINE
    )
    known = [(library.name, library.package) for library in (*LIBRARIES, SOFTWARE_DRIVER)]
    assert [(name.strip("`"), package) for name, package in told] == known


def test_extras_are_told():
    told = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", section("how-to/install.md", "Extras"), re.M)
    settings = ConfigParser()
    settings.read(TREE / "setup.cfg")
    extras = set(settings["options.extras_require"])
    assert {name for cell in told for name in re.findall(r"`(\w+)`", cell)} == extras


def test_exit_codes_are_told():
    told = re.findall(
        r"^\| (\d+) \|", section("reference/command-line.md", "Exit codes"), re.MULTILINE
    )
    assert told == ["0", "1", "2", str(INTERRUPTED), str(TERMINATED)]


def test_what_may_change_when_a_run_is_continued_is_told():
    told = section("how-to/continue-a-run.md", "What may change").split("```")[0]
    named = {flag.replace("-", "_") for flag in re.findall(r"`--([a-z-]+)`", told)}
    free = {
        name
        for name, entry in OPTIONS.items()
        if entry.metadata["group"] in ("speed", "place", "display") or entry.metadata.get("free")
    }
    assert named == free - {"port"}


def test_the_way_is_found():
    rows = re.findall(
        r"^\| (.+?) \| `(\S+)` \| `(\S+)` \|$", read("find-your-way.md"), re.MULTILINE
    )
    assert len(rows) >= 30
    assert len({sentence for sentence, _, _ in rows}) == len(rows)
    for sentence, file, symbol in rows:
        source = (TREE / file).read_text("utf-8")
        defined = rf"^\s*(?:(?:async )?def|class) {symbol}\b|^{symbol}\b[^=\n]*="
        assert re.search(defined, source, re.MULTILINE), f"{sentence}: {file} has no {symbol}"


def test_json_and_yaml_of_the_pages_can_be_read():
    for page in PAGES:
        for text in blocks(page, "yaml"):
            assert yaml.safe_load(text)
        for text in blocks(page, "json"):
            assert json.loads(text)


def test_the_line_length_of_the_rules_is_that_of_ruff():
    line = re.search(r"^line-length = (\d+)$", (TREE / "pyproject.toml").read_text("utf-8"), re.M)
    assert f"{line[1]} characters" in CONTRIBUTING
    assert f"max_line_length = {line[1]}" in (TREE / ".editorconfig").read_text("utf-8")


@by_page
def test_the_targets_of_make_that_are_named_are_there(page):
    told = set(re.findall(r"(?:^|`)make ([a-z]+(?:-[a-z]+)*)", read(page), re.MULTILINE))
    makefile = (TREE / "Makefile").read_text("utf-8")
    assert told <= set(re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE))


def test_the_version_stands_in_both_of_its_places():
    settings = ConfigParser()
    settings.read(TREE / "setup.cfg")
    version = settings["metadata"]["version"]
    cited = (TREE / "CITATION.cff").read_text("utf-8")
    assert f"\nversion: {version}\n" in cited
    assert "\n## Unreleased\n" in (TREE / "CHANGELOG.md").read_text("utf-8")


def linked(page):
    """Return the files that a page links."""
    return [(page.parent / place).resolve() for _, place in LINK.findall(read(page)) if "://" not in place]  # fmt: skip


def test_every_page_is_found_from_the_readme():
    found, ahead = set(), [README]
    while ahead:
        page = ahead.pop()
        found.add(page)
        ahead += [each for each in linked(page) if each in PAGES and each not in found]
    assert not [page.name for page in PAGES if page not in found]


def test_the_first_page_leads_to_every_other():
    assert not set(DOCS.rglob("*.md")) - {DOCS / "index.md", *linked(DOCS / "index.md")}


def test_every_page_is_in_the_navigation_of_the_site():
    told = re.findall(
        r"^ +- .+: (\S+\.md)$", (TREE / "mkdocs.yml").read_text("utf-8"), re.MULTILINE
    )
    assert sorted(told) == sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
