"""Every public name has a docstring with an example, and the examples work."""

import ast
import doctest
import importlib
import inspect
import re
import shutil

import pytest
from factories.documentation import blocks, read

import render_agent


@pytest.mark.parametrize("name", render_agent.__all__)
def test_docstring_examples_work(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = getattr(render_agent, name)
    module = importlib.import_module(result.__module__)
    names = {name: result}
    tests = doctest.DocTestFinder(recurse=False).find(result, name, module=module, globs=names)
    assert sum(len(test.examples) for test in tests) >= 1, f"{name} has no example"
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    output: list[str] = []
    for test in tests:
        runner.run(test, out=output.append)
    assert not runner.summarize(verbose=False).failed, "".join(output)


@pytest.mark.parametrize("name", render_agent.__all__)
def test_public_methods_have_docstrings(name):
    result = getattr(render_agent, name)
    members = vars(result).items() if inspect.isclass(result) else ()
    kinds = (property, staticmethod, classmethod)
    undocumented = [
        member
        for member, value in members
        if not member.startswith("_")
        and (callable(value) or isinstance(value, kinds))
        and not inspect.getdoc(value)
    ]
    assert not undocumented


def test_examples_on_the_docs_page_work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(render_agent.bundled_rooms()["room01"], "room.ply")
    page = "how-to/python.md"
    examples = blocks(page, "python")
    assert len(examples) == 2
    names: dict[str, object] = {}
    for block in examples:
        quick = block.replace('model="small"', 'engine="scripted"')
        tree = ast.parse(quick.replace("limit=10", "limit=4, image_size=(160, 120)"))
        last = tree.body.pop()
        exec(compile(tree, "python.md", "exec"), names)
        assert isinstance(last, ast.Expr)
        assert eval(compile(ast.Expression(last.value), "python.md", "eval"), names) is not None
    assert names["dialogue"].answer == "unknown"
    assert names["scene"].view().depth.shape == (480, 640)
    documented = set(re.findall(r"render_agent\.(\w+)", read(page)))
    assert documented - {"ply"} <= set(render_agent.__all__)
