"""Installs the example packages of docs/extending."""

import re
import shlex
import sys
import tomllib

from factories import TREE

PAGES = TREE / "docs" / "extending"


def blocks(page, language=""):
    """Return the fenced blocks of a page in one language, in order."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return [text for told, text in found if told == language]


def shown(name):
    """Return a page, its Python module, and the arguments of its command."""
    page = (PAGES / f"{name}.md").read_text("utf-8")
    (module,), (command,) = blocks(page, "python"), blocks(page)
    program, *words = shlex.split(command)
    assert program == "render-agent"
    return page, module, words


def install(monkeypatch, folder, project, modules):
    """Install modules with the metadata of their pyproject.toml into a folder on `sys.path`."""
    told = tomllib.loads(project)["project"]
    site = folder / "site"
    record = site / f"{told['name'].replace('-', '_')}-{told['version']}.dist-info"
    record.mkdir(parents=True)
    head = f"Metadata-Version: 2.1\nName: {told['name']}\nVersion: {told['version']}\n"
    (record / "METADATA").write_text(head, "utf-8")
    groups = told["entry-points"].items()
    lines = [
        line
        for group, parts in groups
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in parts.items()))
    ]
    (record / "entry_points.txt").write_text("\n".join(lines) + "\n", "utf-8")
    for module, source in modules.items():
        (site / f"{module}.py").write_text(source, "utf-8")
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.syspath_prepend(site)


def install_page(monkeypatch, folder, name):
    """Install the package of a page; return the arguments of its command."""
    page, module, words = shown(name)
    (project,) = blocks(page, "toml")
    (named,) = re.findall(r"^`(\w+)\.py`:$", page, re.MULTILINE)
    install(monkeypatch, folder, project, {named: module})
    return words
