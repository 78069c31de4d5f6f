"""Finds the local modules that a Python file imports, without executing anything."""

from __future__ import annotations

import ast
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from render_agent.util.safe_parse import read_bounded

INSTALLED = {"site-packages", "dist-packages"}

# Recorded by version and commit.
OWN = {"render_agent", "render_agent_lab"}


def local_imports(path: Path) -> list[Path]:
    """Return the files of all modules that a Python file imports, directly or indirectly, from its folder or `sys.path`.

    The standard library, installed packages, and imports by computed names are left out.
    """
    roots = [path.parent.resolve(), *_local_roots()]
    paths, waiting = {path.resolve()}, [path]
    while waiting:
        file = waiting.pop()
        for level, name in _imported_names(file):
            folders = roots if level == 0 else [file.resolve().parents[level - 1]]
            new = set(_module_files(folders, name)) - paths
            paths |= new
            waiting += new
    return sorted(paths - {path.resolve()})


def _local_roots() -> list[Path]:
    """Return the folders of `sys.path` except those of the standard library and of installed packages."""
    standard = {Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib")}
    folders = [Path(entry).resolve() for entry in sys.path]
    return [
        folder
        for folder in folders
        if folder.is_dir()
        and not INSTALLED.intersection(folder.parts)
        and not standard.intersection((folder, *folder.parents))
    ]


def _imported_names(file: Path) -> Iterator[tuple[int, str]]:
    """Yield level (0 for an absolute import) and dotted name of what a file may import."""
    with suppress(OSError, ValueError, SyntaxError, RecursionError):  # reported by the import
        for node in ast.walk(ast.parse(read_bounded(file))):
            if isinstance(node, ast.Import):
                yield from ((0, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                prefix = f"{node.module}." if node.module else ""
                yield from ((node.level, f"{prefix}{alias.name}") for alias in node.names)


def _module_files(folders: list[Path], name: str) -> Iterator[Path]:
    """Yield the files of a module and its packages; the last part of the name may be a member of a module."""
    first, *rest = name.split(".")
    if first in OWN:
        return
    for folder in folders:
        package, module = folder / first, folder / f"{first}.py"
        if first == "*" or not (package.is_dir() or module.is_file()):
            continue
        initial = package / "__init__.py"
        if initial.is_file() or not module.is_file():  # a package hides a module of its name
            yield from [initial] if initial.is_file() else []
            yield from _module_files([package], ".".join(rest)) if rest else ()
        else:
            yield module
        return
