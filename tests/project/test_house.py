"""Rules of the source tree: import direction, heavy imports, and file names."""

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

# Folders needed for a run; the folders above them read run folders and are not imported by the core.
CORE = {folder for level in LEVELS[: LEVELS.index("runs") + 1] for folder in level.split()}

# Libraries of extras.
OPTIONAL = set(EXTRAS)

# Modules loaded by `render-agent --help`.
LIGHT = "cli.main errors options registry"


def modules_of(package):
    """Return the modules of a top-level package by dotted name, without its prefix."""
    folder = TREE / package
    names = {
        path: ".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__init__")
        for path in sorted(folder.rglob("*.py"))
    }
    return {name: path for path, name in names.items()}


SOURCES = modules_of("render_agent")
LEVEL_OF = {folder: number for number, level in enumerate(LEVELS) for folder in level.split()}


@cache
def parsed_modules():
    """Return the parsed modules by name; lazily, because every test process collects all tests."""
    return {name: ast.parse(path.read_text("utf-8")) for name, path in SOURCES.items()}


def is_type_checking_block(node):
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def imports(tree, *, typed):
    """Yield imports of a module with their lines; `typed` includes those for type checkers."""
    for node in ast.iter_child_nodes(tree):
        if is_type_checking_block(node) and not typed:
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
    """Return the imports of a module of the package, with their lines."""
    return list(imports(parsed_modules()[name], typed=typed))


def own_imports(name, *, typed=False):
    """Yield the imports of a module from within the package, with their lines."""
    for imported, line in imports_of(name, typed=typed):
        if imported.partition(".")[0] != "render_agent":
            continue
        module = imported.removeprefix("render_agent").lstrip(".")
        while module and module not in SOURCES:
            module = module.rpartition(".")[0]
        if module:
            yield module, line


def folder_of(name):
    return name.partition(".")[0]


def is_in_folders(name, folders):
    return any(f"{name}.".startswith(f"{folder}.") for folder in folders.split())


def test_imports_point_downwards():
    upwards = [
        f"{name}:{line} imports {imported}"
        for name in SOURCES
        if name != "__init__"
        for imported, line in own_imports(name, typed=True)
        if folder_of(imported) not in (folder_of(name), "__init__")
        and LEVEL_OF[folder_of(imported)] >= LEVEL_OF[folder_of(name)]
    ]
    assert not upwards


def test_no_import_cycles():
    graph = {name: {imported for imported, _ in own_imports(name)} - {name} for name in SOURCES}
    assert set(TopologicalSorter(graph).static_order()) == set(SOURCES)


def test_options_import_only_data():
    imported = {name for name, _ in own_imports("options", typed=True)}
    assert imported == {"errors", "scans.file_frame", "util.reasons", "util.sanitize"}


def test_scans_could_be_a_library_of_their_own():
    outside = [
        f"{name}:{line} imports {imported}"
        for name in SOURCES
        if folder_of(name) == "scans"
        for imported, line in own_imports(name, typed=True)
        if not is_in_folders(imported, "scans errors util extras")
    ]
    assert not outside


def test_the_in_process_engine_could_be_a_library_of_its_own():
    parts = (
        "transformers checkpoint families memory byte_cache bundled_models engine engine_options"
    )
    room = " ".join(f"engines.{part}" for part in parts.split())
    maker = "engines.transformers.make_transformers"  # passes the options of a run
    outside = [
        f"{name}:{line} imports {imported}"
        for name in SOURCES
        if is_in_folders(name, room) and name != maker
        for imported, line in own_imports(name, typed=True)
        if imported == maker
        or not is_in_folders(imported, f"{room} dialogue util errors extras registry")
    ]
    assert not outside


def test_the_core_imports_nothing_above_it():
    outside = {"render_agent_lab", "training", "tests"}
    wrong = [
        f"{name}:{line} imports {imported}"
        for name in parsed_modules()
        for imported, line in imports_of(name)
        if imported.partition(".")[0] in outside
        or (
            folder_of(name) in CORE
            and imported.startswith("render_agent.")
            and imported.split(".")[1] in LEVEL_OF.keys() - CORE
        )
    ]
    assert not wrong


def test_file_names_are_used_at_most_twice():
    names = Counter(path.name for path in SOURCES.values() if path.name != "__init__.py")
    assert not {name: n for name, n in names.items() if n > 2}


def test_every_folder_has_a_level():
    assert {folder_of(name) for name in SOURCES if name != "__init__"} == set(LEVEL_OF)


@pytest.mark.parametrize("library", DOORS)
def test_heavy_libraries_are_imported_in_designated_modules(library):
    elsewhere = [
        f"{name} line {line}"
        for name in parsed_modules()
        for imported, line in imports_of(name)
        if imported.partition(".")[0] == library and not is_in_folders(name, DOORS[library])
    ]
    assert not elsewhere


def modules_loaded_by(imported):
    script = f"import sys, {imported}; sys.stdout.write(' '.join(sys.modules))"
    return set(
        subprocess.run(
            [sys.executable, "-c", script], cwd=TREE, capture_output=True, text=True, check=True
        ).stdout.split()
    )


@pytest.mark.parametrize("module", LIGHT.split())
def test_command_line_loads_no_heavy_library(module):
    heavy = {"numpy", "PIL", "yaml", "msgspec", *DOORS}
    assert not heavy & modules_loaded_by(f"render_agent.{module}")


def test_importing_the_runner_loads_no_heavy_library():
    loaded = modules_loaded_by("render_agent.runs.runner, render_agent.cli.run")
    assert not set(DOORS) & loaded


def project_files():
    """Return the files tracked by git, as text if they are text."""
    if shutil.which("git") is None or not (TREE / ".git").exists():
        pytest.skip("git or its repository is missing")
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=TREE, capture_output=True, text=True, check=True
    )
    texts = {".py", ".md", ".cfg", ".toml", ".txt", ".json", ".jsonl", ".yaml", ".cff", ".in", ""}
    files = [TREE / name for name in listed.stdout.split("\0") if name]
    return [path for path in files if path.suffix in texts and path.is_file()]


def test_no_file_contains_a_machine_specific_path():
    places = re.compile(r"/(?:home|Users|root|work|mnt|media)/[A-Za-z]|[A-Z]:\\\\Users")
    matches = [
        f"{path.relative_to(TREE)}:{number}"
        for path in project_files()
        if path.name != "test_house.py"
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if places.search(line)
    ]
    assert not matches


def test_designated_modules_import_a_known_library():
    assert not [name for name in DOORS.keys() - OPTIONAL if find_spec(name) is None]
