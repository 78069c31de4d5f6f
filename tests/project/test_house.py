"""The rules of the tree: the direction of imports, where heavy libraries are imported, names of files."""

import ast
import re
import shutil
import subprocess
import sys
from collections import Counter
from functools import cache
from graphlib import TopologicalSorter
from importlib.util import find_spec

import pytest

from render_agent.extras import EXTRAS
from scripts.house import DOORS, LEVELS, TREE

CORE = {folder for level in LEVELS[: LEVELS.index("runs") + 1] for folder in level.split()}
"""What a run needs; the folders above it read run folders, and the core imports none of them."""

OPTIONAL = set(EXTRAS)
"""Libraries of extras."""

LIGHT = "cli.main errors options registry"
"""Modules that `render-agent --help` loads."""


def modules_of(package):
    """Return the modules of a top-level package by dotted name, without the package's own."""
    folder = TREE / package
    names = {
        path: ".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__init__")
        for path in sorted(folder.rglob("*.py"))
    }
    return {name: path for path, name in names.items()}


SOURCES = modules_of("render_agent")
LEVEL_OF = {folder: number for number, level in enumerate(LEVELS) for folder in level.split()}


@cache
def trees():
    """Return the parsed modules of the package by name; not before a test asks, as every process collects all tests."""
    return {name: ast.parse(path.read_text("utf-8")) for name, path in SOURCES.items()}


def only_for_types(node):
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def imports(tree, *, typed):
    """Give what a module imports, with the line; typed: those for type checkers, too."""
    for node in ast.iter_child_nodes(tree):
        if only_for_types(node) and not typed:
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"relative import in line {node.lineno}"
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)
        else:
            yield from imports(node, typed=typed)


@cache
def imports_of(name, *, typed=False):
    """Return what a module of the package imports, with the line."""
    return list(imports(trees()[name], typed=typed))


def own_imports(name, *, typed=False):
    """Give the modules of the package that a module imports, with the line."""
    for imported, line in imports_of(name, typed=typed):
        if imported.partition(".")[0] != "render_agent":
            continue
        known = imported.removeprefix("render_agent").lstrip(".")
        while known and known not in SOURCES:
            known = known.rpartition(".")[0]
        if known:
            yield known, line


def folder_of(name):
    return name.partition(".")[0]


def within(name, folders):
    return any(f"{name}.".startswith(f"{folder}.") for folder in folders.split())


def test_imports_go_one_way():
    upwards = [
        f"{name}:{line} imports {imported}"
        for name in SOURCES
        if name != "__init__"
        for imported, line in own_imports(name, typed=True)
        if folder_of(imported) not in (folder_of(name), "__init__")
        and LEVEL_OF[folder_of(imported)] >= LEVEL_OF[folder_of(name)]
    ]
    assert not upwards


def test_no_import_cycle():
    graph = {name: {imported for imported, _ in own_imports(name)} - {name} for name in SOURCES}
    assert set(TopologicalSorter(graph).static_order()) == set(SOURCES)


def test_options_are_data():
    imported = {name for name, _ in own_imports("options", typed=True)}
    assert imported == {"errors", "util.reasons", "util.redact"}


def test_the_core_imports_nothing_above_it():
    outside = {"render_agent_lab", "training", "benchmarks", "tests"}
    wrong = [
        f"{name}:{line} imports {imported}"
        for name in trees()
        for imported, line in imports_of(name)
        if imported.partition(".")[0] in outside
        or (
            folder_of(name) in CORE
            and imported.startswith("render_agent.")
            and imported.split(".")[1] in LEVEL_OF.keys() - CORE
        )
    ]
    assert not wrong


def test_no_file_name_is_used_more_than_twice():
    names = Counter(path.name for path in SOURCES.values() if path.name != "__init__.py")
    assert not {name: n for name, n in names.items() if n > 2}


def test_every_folder_has_a_level():
    assert {folder_of(name) for name in SOURCES if name != "__init__"} == set(LEVEL_OF)


@pytest.mark.parametrize("library", DOORS)
def test_a_heavy_library_is_imported_in_its_place_only(library):
    elsewhere = [
        f"{name} line {line}"
        for name in trees()
        for imported, line in imports_of(name)
        if imported.partition(".")[0] == library and not within(name, DOORS[library])
    ]
    assert not elsewhere


def loaded_by(imported):
    asked = f"import sys, {imported}; sys.stdout.write(' '.join(sys.modules))"
    return set(
        subprocess.run(
            [sys.executable, "-c", asked], cwd=TREE, capture_output=True, text=True, check=True
        ).stdout.split()
    )


@pytest.mark.parametrize("module", LIGHT.split())
def test_the_command_line_loads_nothing_heavy(module):
    heavy = {"numpy", "PIL", "yaml", "msgspec", *DOORS}
    assert not heavy & loaded_by(f"render_agent.{module}")


def test_importing_the_runner_loads_no_heavy_library():
    loaded = loaded_by("render_agent.runs.runner, render_agent.cli.commands.run")
    assert not set(DOORS) & loaded


def project_files():
    """Return the files that git keeps, as text where they are text."""
    if shutil.which("git") is None or not (TREE / ".git").exists():
        pytest.skip("git or its record of the project is not here")
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=TREE, capture_output=True, text=True, check=True
    )
    texts = {".py", ".md", ".cfg", ".toml", ".txt", ".json", ".jsonl", ".yaml", ".cff", ".in", ""}
    files = [TREE / name for name in listed.stdout.split("\0") if name]
    return [path for path in files if path.suffix in texts and path.is_file()]


def test_no_file_names_a_place_on_one_machine():
    places = re.compile(r"/(?:home|Users|root|work|mnt|media)/[A-Za-z]|[A-Z]:\\\\Users")
    named = [
        f"{path.relative_to(TREE)}:{number}"
        for path in project_files()
        if path.name != "test_house.py"
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if places.search(line)
    ]
    assert not named


def test_every_door_leads_to_a_known_library():
    assert not [name for name in DOORS.keys() - OPTIONAL if find_spec(name) is None]
