"""The pages of docs/ and CONTRIBUTING.md say what is so: parts, doors, names, tests, files, commands."""

import ast
import re
import shlex
from configparser import ConfigParser

import pytest
from test_house import (
    DOORS,
    LAYERS,
    MOST_LINES,
    MOST_LINES_OF_A_FUNCTION,
    PACKAGE,
    SOURCES,
    TREE,
    TREES,
)

from render_agent.cli.main import cli

PAGES = [TREE / "CONTRIBUTING.md", *sorted((TREE / "docs").rglob("*.md"))]
ARCHITECTURE = (TREE / "docs" / "architecture.md").read_text("utf-8")
CONTRIBUTING = (TREE / "CONTRIBUTING.md").read_text("utf-8")
LINK = re.compile(r"\[([^\]]*)\]\(([^)#]+)\)")


def read(page):
    """Return the text of a page."""
    return page.read_text("utf-8")


by_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def first_line(part):
    """Return the first line of a part's description."""
    told = ast.get_docstring(TREES[part])
    assert told, f"{part} has no description"
    return told.splitlines()[0]


def parts_table():
    """Return the rows that the page must have, one a part of LAYERS, in their order."""
    places = [(number, part) for number, parts in enumerate(LAYERS, 1) for part in parts.split()]
    rows = []
    for number, part in places:
        name = part.replace(".", "/")
        place = f"{name}/" if (PACKAGE / name).is_dir() else f"{name}.py"
        told = first_line(part).replace("|", "\\|")
        rows.append(f"| {number} | [{part}](../render_agent/{place}) | {told} |")
    return rows


def test_the_parts_are_those_of_the_tree_in_the_order_of_the_layers():
    told = re.findall(r"^\| \d+ \|.*$", ARCHITECTURE, re.MULTILINE)
    assert told == parts_table(), "the table should be:\n" + "\n".join(parts_table())


def test_every_part_of_the_way_is_in_the_layers():
    (drawn,) = re.findall(r"^## The way of the data\n+```\n(.*?)^```$", ARCHITECTURE, re.M | re.S)
    named = {name for line in drawn.splitlines() for name in line[72:].split() if name in SOURCES}
    assert {"cli", "config", "questions", "scene", "state", "look", "render", "engines"} <= named
    assert {"agents", "choose", "run_log", "score", "diagnosis", "report", "export"} <= named
    assert named <= {part for parts in LAYERS for part in parts.split()}


def test_the_doors_are_as_told():
    table = ARCHITECTURE.partition("| library | parts |\n")[2]
    told = dict(re.findall(r"^\| ([\w]+) \| (.+) \|$", table, re.MULTILINE))
    expected = {library: ", ".join(parts.split()) for library, parts in DOORS.items()}
    rows = "\n".join(f"| {library} | {parts} |" for library, parts in expected.items())
    assert told == expected, f"the table should be:\n{rows}"


@by_page
def test_files_that_are_linked_are_there(page):
    links = [(name, place) for name, place in LINK.findall(read(page)) if "://" not in place]
    assert links
    assert not [place for _, place in links if not (page.parent / place).exists()]


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


def test_commands_in_a_line_are_understood():
    """Those in blocks need the packages that are shown beside them: tests/extending/ types them."""
    lines = {line for page in PAGES for line in re.findall(r"`(render-agent [^`]+)`", read(page))}
    lines.remove("render-agent --help")  # it ends while it is read
    assert len(lines) >= 2
    for line in lines:
        context = cli.make_context("render-agent", shlex.split(line)[1:])
        if rest := [*context._protected_args, *context.args]:
            name, command, words = cli.resolve_command(context, rest)
            command.make_context(name, words, parent=context)


def test_the_rules_have_the_numbers_of_the_tests():
    assert f"at most {MOST_LINES} lines" in CONTRIBUTING
    assert f"at most {MOST_LINES_OF_A_FUNCTION} lines" in CONTRIBUTING
    line = re.search(r"^line-length = (\d+)$", (TREE / "pyproject.toml").read_text("utf-8"), re.M)
    assert f"{line[1]} characters" in CONTRIBUTING


def test_the_targets_of_make_that_are_named_are_there():
    told = set(re.findall(r"(?:^|`)make ([a-z]+(?:-[a-z]+)*)", CONTRIBUTING, re.MULTILINE))
    there = set(
        re.findall(r"^([a-z-]+):.*## ", (TREE / "Makefile").read_text("utf-8"), re.MULTILINE)
    )
    assert {"setup", "test", "lint"} <= told <= there


def test_the_version_stands_in_both_of_its_places():
    settings = ConfigParser()
    settings.read(TREE / "setup.cfg")
    version = settings["metadata"]["version"]
    cited = (TREE / "CITATION.cff").read_text("utf-8")
    assert f"\nversion: {version}\n" in cited
    assert "\n## Unreleased\n" in (TREE / "CHANGELOG.md").read_text("utf-8")


def test_every_page_is_found_from_the_readme():
    readme = (TREE / "README.md").read_text("utf-8")
    linked = {(TREE / place).resolve() for _, place in LINK.findall(readme) if "://" not in place}
    assert not [page.name for page in PAGES if page.resolve() not in linked]
