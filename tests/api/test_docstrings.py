"""Every public name has a docstring with an example, and the examples run."""

import doctest
import importlib
import inspect

import pytest

import render_agent


@pytest.mark.parametrize("name", render_agent.__all__)
def test_the_examples_of_a_public_name_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = getattr(render_agent, name)
    own = importlib.import_module(found.__module__)
    names = {name: found}
    tests = doctest.DocTestFinder(recurse=False).find(found, name, module=own, globs=names)
    assert sum(len(test.examples) for test in tests) >= 1, f"{name} shows no example"
    flags = doctest.NORMALIZE_WHITESPACE
    runner = doctest.DocTestRunner(optionflags=flags)
    told: list[str] = []
    for test in tests:
        runner.run(test, out=told.append)
    assert not runner.summarize(verbose=False).failed, "".join(told)


@pytest.mark.parametrize("name", render_agent.__all__)
def test_every_public_method_is_described(name):
    found = getattr(render_agent, name)
    members = vars(found).items() if inspect.isclass(found) else ()
    described = (property, staticmethod, classmethod)
    bare = [
        member
        for member, value in members
        if not member.startswith("_")
        and (callable(value) or isinstance(value, described))
        and not inspect.getdoc(value)
    ]
    assert not bare
