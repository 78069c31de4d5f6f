"""The rules of the house: the tree, which way imports go, where heavy libraries live."""

import ast
import re
import shutil
import subprocess
import sys
from collections import Counter
from functools import cache
from graphlib import TopologicalSorter
from importlib.util import find_spec
from pathlib import Path

import pytest

from render_agent.extras import EXTRAS
from scripts.house import DOORS, LEVELS, TREE

CORE = {room for level in LEVELS[: LEVELS.index("runs") + 1] for room in level.split()}
"""What a run needs; the rooms above are rings, made of run folders, and the core imports none of them."""

OPTIONAL = set(EXTRAS)
"""Libraries of extras."""

LIGHT = "cli.main config errors registry"
"""Modules that `render-agent --help` loads."""

SHARED_NAMES = {"__init__", "base", "registry", "engine", "options", "command"}
"""File names that play the same part in every folder that has one."""

ACROSS = {"extending", "faults", "fuzz", "project", "security", "training", "upgrades", "with_vllm"}
"""Folders of tests that are about no single room."""

MOST_FILES, MOST_ROOT_MODULES, MOST_LEVELS = 15, 6, 12


def modules_of(package):
    """Return the modules of a top-level package by dotted name, without the package's own."""
    folder = TREE / package
    names = {
        path: ".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__init__")
        for path in sorted(folder.rglob("*.py"))
    }
    return {name: path for path, name in names.items()}


SOURCES = modules_of("render_agent")
LEVEL_OF = {room: number for number, level in enumerate(LEVELS) for room in level.split()}


@cache
def trees():
    """Return the parsed modules of the package by name; not before a test asks, as every process collects all tests."""
    return {name: ast.parse(path.read_text("utf-8")) for name, path in SOURCES.items()}


def only_for_types(node):
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def imports(tree):
    """Give what a module imports, with the line, those for type checkers left out."""
    for node in ast.iter_child_nodes(tree):
        if only_for_types(node):
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"relative import in line {node.lineno}"
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)
        else:
            yield from imports(node)


@cache
def imports_of(name):
    """Return what a module of the package imports, with the line."""
    return list(imports(trees()[name]))


def own_imports(name):
    """Give the modules of the package that a module imports, with the line."""
    for imported, line in imports_of(name):
        if imported.partition(".")[0] != "render_agent":
            continue
        known = imported.removeprefix("render_agent").lstrip(".")
        while known and known not in SOURCES:
            known = known.rpartition(".")[0]
        if known:
            yield known, line


def room_of(name):
    return name.partition(".")[0]


def within(name, rooms):
    return any(f"{name}.".startswith(f"{room}.") for room in rooms.split())


def room_imports():
    """Return the rooms that every room imports."""
    graph = {room_of(name): set() for name in SOURCES if name != "__init__"}
    for name in SOURCES:
        if name != "__init__":
            targets = {room_of(imported) for imported, _ in own_imports(name)}
            graph[room_of(name)] |= targets - {room_of(name), "__init__"}
    return graph


def test_imports_go_one_way():
    upwards = [
        f"{name}:{line} imports {imported}"
        for name in SOURCES
        if name != "__init__"
        for imported, line in own_imports(name)
        if room_of(imported) not in (room_of(name), "__init__")
        and LEVEL_OF[room_of(imported)] >= LEVEL_OF[room_of(name)]
    ]
    assert not upwards


def test_rooms_are_at_most_twelve_levels_deep():
    """Root modules count as rooms: an import from one room of another is a step."""
    graph = room_imports()
    depth = {}
    for room in TopologicalSorter(graph).static_order():
        depth[room] = 1 + max((depth[target] for target in graph.get(room, ())), default=0)
    assert max(depth.values()) <= MOST_LEVELS, depth


def test_no_module_imports_itself_in_a_circle():
    graph = {name: {imported for imported, _ in own_imports(name)} - {name} for name in SOURCES}
    assert set(TopologicalSorter(graph).static_order()) == set(SOURCES)


def test_the_core_imports_no_ring():
    outside = {"render_agent_lab", "training", "benchmarks", "tests"}
    wrong = [
        f"{name}:{line} imports {imported}"
        for name in trees()
        for imported, line in imports_of(name)
        if imported.partition(".")[0] in outside
        or (
            room_of(name) in CORE
            and imported.startswith("render_agent.")
            and imported.split(".")[1] in LEVEL_OF.keys() - CORE
        )
    ]
    assert not wrong


def test_every_room_has_a_level_and_the_root_is_small():
    rooms = {room_of(name) for name in SOURCES if name != "__init__"}
    assert rooms == set(LEVEL_OF)
    assert len([name for name in SOURCES if SOURCES[name].parent.name == "render_agent"]) <= (
        MOST_ROOT_MODULES
    )


def folders():
    """Return the folders of both packages that hold modules, with their files."""
    found = {}
    for package in ("render_agent", "render_agent_lab"):
        for path in sorted((TREE / package).rglob("*.py")):
            found.setdefault(path.parent, []).append(path)
    return found


def test_no_folder_holds_too_many_files():
    assert not {
        str(folder.relative_to(TREE)): len(files)
        for folder, files in folders().items()
        if len(files) > MOST_FILES
    }


def test_a_prefix_of_three_files_is_a_folder():
    prefixes = Counter(
        (str(folder.relative_to(TREE)), path.stem.split("_")[0])
        for folder, files in folders().items()
        for path in files
        if "_" in path.stem and not path.stem.startswith("__")
    )
    assert not {prefix: count for prefix, count in prefixes.items() if count > 2}


def test_no_file_name_has_many_meanings():
    stems = Counter(path.stem for files in folders().values() for path in files)
    assert not {
        stem: count for stem, count in stems.items() if count > 2 and stem not in SHARED_NAMES
    }


def test_every_room_says_what_it_holds_imports_and_where_to_start():
    silent = []
    for folder in folders():
        told = ast.get_docstring(ast.parse((folder / "__init__.py").read_text("utf-8"))) or ""
        sentences = [part for part in re.split(r"[.;:]\s", told.replace("\n", " ") + " ") if part]
        if len(sentences) < 3 or "tart with" not in told:
            silent.append(str(folder.relative_to(TREE)))
    assert not silent


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
    heavy = {"numpy", "PIL", "rich", "yaml", "msgspec", *DOORS}
    assert not heavy & loaded_by(f"render_agent.{module}")


def test_importing_the_runner_loads_no_heavy_library():
    loaded = loaded_by("render_agent.runs.runner, render_agent.cli.commands.runs")
    assert not set(DOORS) & loaded


def public_classes(tree):
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    return [node for node in classes if not node.name.startswith("_")]


def test_public_things_have_docstrings():
    undescribed = [
        f"{name}: {node.name}"
        for name, tree in trees().items()
        for scope in [tree, *public_classes(tree)]
        for node in scope.body
        if isinstance(node, ast.ClassDef | ast.FunctionDef)
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
        and not any(ast.unparse(d).endswith((".setter", "overload")) for d in node.decorator_list)
    ]
    undescribed += [
        name for name, tree in trees().items() if tree.body and not ast.get_docstring(tree)
    ]
    assert not undescribed


def _dotted(node):
    """Return a dotted name, "" where something else is called."""
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


@cache
def calls_of(tree):
    return [
        (_dotted(node.func), node.lineno) for node in ast.walk(tree) if isinstance(node, ast.Call)
    ]


def test_nothing_is_printed():
    assert not [
        f"{name}:{line}"
        for name, tree in trees().items()
        for called, line in calls_of(tree)
        if called == "print"
    ]


def test_only_the_command_line_exits():
    exits = {"sys.exit", "exit", "quit", "os._exit"}
    assert not [
        f"{name}:{line}"
        for name, tree in trees().items()
        for called, line in calls_of(tree)
        if called in exits and name not in ("__main__", "cli.main", "cli.commands.doctor.probe")
    ]


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


def test_names_of_test_files_are_unique():
    names = [path.name for path in (TREE / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))


def test_every_door_leads_to_a_known_library():
    assert not [name for name in DOORS.keys() - OPTIONAL if find_spec(name) is None]


def test_tests_lie_in_folders_named_as_what_they_test():
    folders = {
        path.parent.relative_to(TREE / "tests")
        for path in (TREE / "tests").rglob("test_*.py")
        if path.parent != TREE / "tests"
    }
    strange = []
    for folder in folders:
        first, *rest = folder.parts
        room = Path("render_agent_lab", *rest) if first == "lab" else "render_agent" / folder
        if first not in ACROSS and not (TREE / room).is_dir():
            strange.append(str(folder))
    assert not strange
