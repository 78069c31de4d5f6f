"""`import render_agent` is fast, and its names resolve."""

import ast
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import render_agent

HEAVY = ("numpy", "PIL", "pandas", "torch", "click", "rich", "jinja2", "scipy", "numba")


def python(code: str) -> str:
    """Return the output of a fresh interpreter."""
    line = [sys.executable, "-c", code]
    return subprocess.run(line, capture_output=True, text=True, check=True).stdout


def test_import_loads_nothing_else():
    code = (
        "import sys; before = set(sys.modules); import render_agent;"
        " print('new:', *sorted(set(sys.modules) - before)); dir(render_agent);"
        " print('later:', *sorted(set(sys.modules) - before))"
    )
    lines = python(code).splitlines()
    allowed = {"render_agent", "__future__", "importlib", "types", "typing"}
    for name in ("new:", "later:"):
        loaded = next(line for line in lines if line.startswith(name)).split()[1:]
        assert "render_agent" in loaded
        own = {module for module in loaded if module.partition(".")[0] == "render_agent"}
        assert own == {"render_agent"}
        assert not {module.partition(".")[0] for module in loaded} & set(HEAVY)
        standard = sys.stdlib_module_names | allowed
        assert {module.partition(".")[0] for module in loaded} <= standard


@pytest.mark.parametrize("name", render_agent.__all__)
def test_every_public_name_resolves(name):
    result = getattr(render_agent, name)
    assert result.__name__ == name
    assert getattr(importlib.import_module(result.__module__), name) is result


def test_dir_and_star_import_list_all_names():
    assert set(render_agent.__all__) <= set(dir(render_agent))
    names = {}
    exec("from render_agent import *", names)
    assert set(render_agent.__all__) <= set(names)
    with pytest.raises(AttributeError, match="no attribute 'asks'"):
        _ = render_agent.asks


def test_public_names_do_not_shadow_modules():
    modules = {module.name for module in pkgutil.iter_modules(render_agent.__path__)}
    assert not modules & set(render_agent.__all__)


def test_type_checkers_see_the_same_imports():
    tree = ast.parse(Path(render_agent.__file__).read_text("utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    told = {
        alias.asname: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert set(told) == set(render_agent.__all__)
    assert told == {name: getattr(render_agent, name).__module__ for name in render_agent.__all__}
