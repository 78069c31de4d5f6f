"""`import render_agent` is fast, and its names resolve."""

import ast
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import render_agent


def test_import_loads_nothing_else():
    code = (
        "import sys; before = set(sys.modules); import render_agent;"
        " print('new:', *sorted(set(sys.modules) - before)); dir(render_agent);"
        " print('later:', *sorted(set(sys.modules) - before))"
    )
    command = [sys.executable, "-c", code]
    lines = subprocess.check_output(command, text=True).splitlines()
    for name in ("new:", "later:"):
        loaded = next(line for line in lines if line.startswith(name)).split()[1:]
        assert [m for m in loaded if m.partition(".")[0] == "render_agent"] == ["render_agent"]
        assert {m.partition(".")[0] for m in loaded} <= {*sys.stdlib_module_names, "render_agent"}


@pytest.mark.parametrize("name", render_agent.__all__)
def test_every_public_name_resolves(name):
    result = getattr(render_agent, name)
    assert result.__name__ == name
    assert getattr(importlib.import_module(result.__module__), name) is result


def test_dir_and_star_import_list_all_names():
    assert dir(render_agent) == sorted([*render_agent.__all__, "__version__"])
    names = {}
    exec("from render_agent import *", names)
    assert set(render_agent.__all__) <= set(names)
    with pytest.raises(AttributeError, match="'asks'"):
        _ = render_agent.asks


def test_public_names_do_not_shadow_modules():
    modules = {module.name for module in pkgutil.iter_modules(render_agent.__path__)}
    assert not modules & set(render_agent.__all__)


def test_type_checkers_see_the_same_imports():
    tree = ast.parse(Path(render_agent.__file__).read_text("utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imported = {
        alias.asname: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert imported == {n: getattr(render_agent, n).__module__ for n in render_agent.__all__}
