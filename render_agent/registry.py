"""Parts that installed packages bring: engines, renderers, benchmarks and kinds of view.

A package names them as entry points; options ask for them by the same names as for the program's own,
which come first. Packages are looked through only for a name that is none of the program's own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from render_agent.errors import RenderAgentError, SetupError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Kind = Literal["engine", "renderer", "benchmark", "kind of view"]

GROUPS: dict[Kind, str] = {
    "engine": "render_agent.engines",
    "renderer": "render_agent.renderers",
    "benchmark": "render_agent.benchmarks",
    "kind of view": "render_agent.views",
}
"""Under which group of entry points a package names each kind of part."""

NAME = re.compile(r"[a-z][a-z0-9_]*(?:-[a-z][a-z0-9_]*)*")
"""How a part may be called; names of files are made of it, where -2 stands for the second one."""

RESERVED = ("candidate", "none", "null")
"""Names that mean something else, in replies or in names of files."""

LONGEST = 40
"""Characters of a name at the most."""


def names(kind: Kind) -> list[str]:
    """Return the names of the parts of a kind that installed packages bring, in order."""
    return sorted({entry.name for entry in _entries(kind) if is_name(entry.name)})


def is_name(text: str) -> bool:
    """Whether a part may be called so."""
    return bool(NAME.fullmatch(text)) and len(text) <= LONGEST and text not in RESERVED


def package(kind: Kind, name: str, own: Sequence[str] = ()) -> str:
    """Return the package that brings a part and its version, "my-engine 1.0". SetupError as in `load`."""
    return _package(_entry(kind, name, own))


def load(kind: Kind, name: str, own: Sequence[str] = ()) -> Any:
    """Return what makes a part: the class or function that its entry point names.

    own: the names of the program's own parts, for the sentence. SetupError where no installed package
    brings the part, several do, or what is named cannot be imported or called.
    """
    entry = _entry(kind, name, own)
    try:
        found = entry.load()
    except Exception as error:  # it is anybody's code
        raise SetupError(
            f"{_told(kind, entry)} cannot be imported from {entry.value}"
            f" ({type(error).__name__}: {error}): mend that package, or uninstall it"
        ) from error
    if not callable(found):
        raise SetupError(
            f"{_told(kind, entry)} is no class and no function but {found!r:.60}: {entry.value} must"
            " name what makes it"
        )
    return found


def make(kind: Kind, name: str, form: type, *given: object, own: Sequence[str] = ()) -> Any:
    """Return a part, made by calling what its entry point names with `given`.

    form: the protocol that it must have all members of. SetupError as in `load`, and where making it
    fails or a member is missing.
    """
    maker = load(kind, name, own)
    try:
        part = maker(*given)
    except RenderAgentError:
        raise
    except Exception as error:  # it is anybody's code
        told = _told(kind, _entry(kind, name, own))
        raise SetupError(
            f"{told} could not be made ({type(error).__name__}: {error}): mend that package, or do"
            " without it"
        ) from error
    if missing := lacking(part, form):
        told = _told(kind, _entry(kind, name, own))
        raise SetupError(f"{told} lacks {', '.join(missing)}, which {form.__name__} asks for")
    return part


def lacking(part: object, form: type) -> list[str]:
    """Return the members of a protocol that an object does not have, in order."""
    members = {*vars(form), *getattr(form, "__annotations__", {})}
    return sorted(name for name in members if not name.startswith("_") and not hasattr(part, name))


def _entry(kind: Kind, name: str, own: Sequence[str]) -> EntryPoint:
    """Return the one entry point of a name. SetupError where there is none, or more than one."""
    found = [entry for entry in _entries(kind) if entry.name == name and is_name(name)]
    if not found:
        known = ", ".join([*own, *(other for other in names(kind) if other not in own)])
        others = f"choose one of {known}, or install" if known else "install"
        raise SetupError(f"there is no {kind} {name!r}: {others} the package that brings it")
    if len(found) > 1:
        packages = " and ".join(sorted(map(_package, found)))
        raise SetupError(f"the {kind} {name!r} is brought by {packages}: uninstall all but one")
    return found[0]


def _entries(kind: Kind) -> list[EntryPoint]:
    from importlib.metadata import entry_points

    return list(entry_points(group=GROUPS[kind]))


def _package(entry: EntryPoint) -> str:
    brought = entry.dist
    return "an unknown package" if brought is None else f"{brought.name} {brought.version}"


def _told(kind: Kind, entry: EntryPoint) -> str:
    return f"the {kind} {entry.name!r} of {_package(entry)}"
