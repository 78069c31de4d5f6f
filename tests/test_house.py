"""The rules of the house: which way imports go, where heavy libraries live, how large things are."""

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from graphlib import TopologicalSorter
from importlib.util import find_spec
from pathlib import Path

import pytest

TREE = Path(__file__).parents[1]
PACKAGE = TREE / "render_agent"

LAYERS = [
    "documents errors forms freed_memory keys models numerals chat plain_table setting system_libraries threads visible",
    "console option_forms paths web view_budget agent_plan plugins",
    "choosing_options",
    "answer score config camera scene.model annotations",
    "action config_file choosing_budget",
    "completion help_page",
    "state run_options",
    "candidates scene questions view_kinds chance capacity estimate",
    "prompt",
    "rooms moves",
    "facts named",
    "oracle stress",
    "render shown",
    "view_policies eyes",
    "expert",
    "engines",
    "run_log predictions",
    "look comparison merging siblings input_files",
    "choose",
    "respond dialogues",
    "agents",
    "deliberation",
    "controller progress tables",
    "workers",
    "runner spread",
    "diagnosis",
    "report export",
    "bench api live turn_lines",
    "commands scoring doctor",
    "play sweep",
    "cli",
    "__main__",
]
"""The parts of the package, lowest first; a part imports parts of lower layers only, never its neighbours."""

DOORS = {
    "OpenGL": "render",
    "llguidance": "engines",
    "inspect_ai": "export",
    "jinja2": "web",
    "matplotlib": "bench report sweep",
    "moderngl": "render",
    "numba": "render",
    "open3d": "scene render",
    "openai": "engines",
    "pandas": "api export",
    "plyfile": "scene rooms api",
    "pyarrow": "questions export",
    "pyrender": "render",
    "qwen_vl_utils": "engines",
    "ray": "workers",
    "rerun": "export",
    "scipy": "scene render rooms",
    "torch": "choose.learned choose.siglip engines doctor.engines doctor.families bench",
    "torchvision": "engines doctor.engines doctor.families bench",
    "transformers": "choose.siglip engines doctor.engines doctor.families bench",
    "trimesh": "scene render rooms",
    "vllm": "engines",
}
"""The parts in which a heavy library may be imported."""

LIGHT = "cli config config_file errors"
"""Modules that `render-agent --help` loads."""

MOST_LINES, MOST_LINES_OF_A_FUNCTION = 350, 60

SOURCES = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}
"""The modules by name, without the package's own."""


class Trees(Mapping):
    """The syntax trees of the modules by name, each parsed when it is first asked for."""

    def __getitem__(self, name):
        return parsed(SOURCES[name])

    def __iter__(self):
        return iter(SOURCES)

    def __len__(self):
        return len(SOURCES)


@cache
def parsed(path):
    return ast.parse(path.read_text("utf-8"))


TREES = Trees()


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


def own_imports(name):
    """Give the modules of the package that a module imports, with the line."""
    for imported, line in imports(TREES[name]):
        if imported.partition(".")[0] != "render_agent":
            continue
        known = imported.removeprefix("render_agent").lstrip(".")
        while known and known not in SOURCES:
            known = known.rpartition(".")[0]
        if known:
            yield known, line


def within(name, parts):
    return any(f"{name}.".startswith(f"{part}.") for part in parts.split())


def part_of(name):
    """Return the part that a module belongs to and the number of its layer."""
    found = [
        (part, number)
        for number, parts in enumerate(LAYERS)
        for part in parts.split()
        if within(name, part)
    ]
    assert found, f"{name} has no layer: add its part to LAYERS"
    return max(found, key=lambda place: len(place[0]))


def test_imports_go_one_way():
    places = {name: part_of(name) for name in SOURCES if name != "__init__"}
    upwards = [
        f"{name} line {line}: {imported}"
        for name, (part, layer) in places.items()
        for imported, line in own_imports(name)
        if (theirs := part_of(imported))[0] != part and theirs[1] >= layer
    ]
    assert not upwards


def test_no_module_imports_itself_in_a_circle():
    graph = {name: {imported for imported, _ in own_imports(name)} - {name} for name in SOURCES}
    assert set(TopologicalSorter(graph).static_order()) == set(SOURCES)


def test_a_heavy_library_is_imported_in_its_place_only():
    elsewhere = [
        f"{name} line {line}: {imported}"
        for name, tree in TREES.items()
        for imported, line in imports(tree)
        if not within(name, DOORS.get(imported.partition(".")[0], name))
    ]
    assert not elsewhere


def test_the_command_line_loads_nothing_heavy():
    modules = ", ".join(f"render_agent.{module}" for module in LIGHT.split())
    asked = f"import sys, {modules}; sys.stdout.write(' '.join(sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", asked], cwd=TREE, capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"numpy", "PIL", "rich", "yaml", *DOORS} & set(loaded)


def test_the_seams_load_no_heavy_library():
    asked = "import sys, render_agent.run.runner, render_agent.cli.commands.runs; sys.stdout.write(' '.join(sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", asked], cwd=TREE, capture_output=True, text=True, check=True
    ).stdout.split()
    assert not set(DOORS) & set(loaded)


def test_modules_and_functions_are_small():
    long = [name for name, path in SOURCES.items() if len(lines_of(path)) > MOST_LINES]
    long += [
        f"{name}: {node.name} has {node.end_lineno - node.lineno + 1} lines"
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno - node.lineno + 1 > MOST_LINES_OF_A_FUNCTION
    ]
    assert not long


def lines_of(path):
    return path.read_text("utf-8").splitlines()


def public_classes(tree):
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    return [node for node in classes if not node.name.startswith("_")]


def test_public_things_have_docstrings():
    undescribed = [
        name for name, tree in TREES.items() if tree.body and not ast.get_docstring(tree)
    ]
    undescribed += [
        f"{name}: {node.name}"
        for name, tree in TREES.items()
        for scope in [tree, *public_classes(tree)]
        for node in scope.body
        if isinstance(node, ast.ClassDef | ast.FunctionDef)
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
        and not any(ast.unparse(d).endswith((".setter", "overload")) for d in node.decorator_list)
    ]
    assert not undescribed


def calls_of(*functions):
    """Return the calls of functions by name: the module and the line of each."""
    return [
        (name, node.lineno)
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in functions
    ]


def test_nothing_is_printed():
    assert not calls_of("print")


def test_only_the_command_line_exits():
    exits = calls_of("sys.exit", "exit", "quit", "os._exit")
    assert {name for name, _ in exits} <= {"cli", "doctor.probe"}, exits


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
    names = [path.name for path in (TREE / "tests").rglob("*.py")]
    assert sorted(names) == sorted(set(names))


def test_every_door_leads_to_a_known_library():
    optional = {"inspect_ai", "moderngl", "openai", "pyarrow", "ray", "rerun", "vllm"}
    assert not [name for name in DOORS if name not in optional and find_spec(name) is None]
