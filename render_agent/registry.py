"""Named parts for options and commands: built in, or provided by installed packages as entry points.

The built-in parts of a kind are a dict of `module:attribute` strings in the `__init__.py` of their folder, so that
names are available without importing the parts. Built-in parts take precedence over those of packages.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from operator import attrgetter
from typing import Any, Literal

from render_agent.errors import SetupError, UsageError
from render_agent.util.reasons import did_you_mean, short_repr

Kind = Literal[
    "engine",
    "model family",
    "renderer",
    "benchmark",
    "question type",
    "metric",
    "agent",
    "verifier",
    "view policy",
    "image stress",
    "change",
    "toolset",
    "reply protocol",
    "scripted policy",
    "logger",
    "run part",
    "report page",
    "report part",
    "command",
]

BUILT_IN: dict[Kind, str] = {  # kind -> dict of its built-in parts
    "engine": "engines:ENGINES",
    "model family": "engines:MODEL_FAMILIES",
    "renderer": "render:RENDERERS",
    "benchmark": "tasks:BENCHMARKS",
    "question type": "tasks:QUESTION_TYPES",
    "metric": "score.metrics:METRICS",
    "agent": "agents:AGENTS",
    "verifier": "agents.verifiers:VERIFIERS",
    "view policy": "views.view_policies:VIEW_POLICIES",
    "image stress": "views.stress:STRESSES",
    "change": "parts.counterfactual:CHANGES",
    "toolset": "views:TOOLSETS",
    "reply protocol": "dialogue:REPLY_PROTOCOLS",
    "scripted policy": "engines:SCRIPTED_POLICIES",
    "logger": "runs:LOGGERS",
    "run part": "parts:PARTS",
    "report page": "report.pages:PAGES",
    "report part": "report:PARTS",
    "command": "cli.commands:COMMANDS",
}

GROUPS: dict[Kind, str] = {  # kind -> entry-point group of plug-ins
    "engine": "render_agent.engines",
    "model family": "render_agent.model_families",
    "renderer": "render_agent.renderers",
    "benchmark": "render_agent.benchmarks",
    "question type": "render_agent.question_types",
    "metric": "render_agent.metrics",
    "verifier": "render_agent.verifiers",
    "view policy": "render_agent.view_policies",
    "reply protocol": "render_agent.reply_protocols",
    "scripted policy": "render_agent.policies",
    "report page": "render_agent.report_pages",
    "command": "render_agent.commands",
}

OWN_PACKAGE = "render_agent"


@cache  # asked for every answer that is scored
def built_in(kind: Kind) -> Mapping[str, str]:
    """Return the built-in parts of a kind: name -> `module:attribute`."""
    module, _, name = BUILT_IN[kind].partition(":")
    parts: Mapping[str, str] = getattr(import_module(f"{OWN_PACKAGE}.{module}"), name)
    return parts


def package_names(kind: Kind) -> list[str]:
    """Return the names of parts that only packages provide, sorted."""
    return sorted({entry.name for entry in _entry_points(kind)} - {*built_in(kind)})


def names(kind: Kind) -> list[str]:
    """Return the names of all parts of a kind, built-in ones first."""
    return [*built_in(kind), *package_names(kind)]


def load(kind: Kind, name: str) -> Any:
    """Import a part: the class, function or object that its entry names."""
    if place := built_in(kind).get(name):
        module, _, attribute = place.partition(":")
        return attrgetter(attribute)(import_module(module))
    entry = _entry(kind, name)
    try:
        return entry.load()
    except (ImportError, AttributeError) as error:
        raise SetupError(
            f"the {kind} {name!r} of {_package(entry)} cannot be imported from {entry.value}"
            f" ({type(error).__name__}: {error}). Fix or uninstall that package."
        ) from error


def unknown(kind: Kind, name: str) -> str:
    """Return the error message for an unknown part."""
    choices = names(kind)
    suggestion = did_you_mean(name, choices)
    return f"there is no {kind} {short_repr(name)}. Choose from {', '.join(choices)}{suggestion}"


def package(kind: Kind, name: str) -> str | None:
    """Return the package that provides a part, e.g. "my-engine 1.0"; None for built-in parts."""
    if name in built_in(kind):
        return None
    entry = _entry(kind, name)
    is_own = entry.dist is not None and entry.dist.name.replace("-", "_") == OWN_PACKAGE
    return None if is_own else _package(entry)


def _entry(kind: Kind, name: str) -> EntryPoint:
    entries = [entry for entry in _entry_points(kind) if entry.name == name]
    if not entries:
        raise UsageError(unknown(kind, name))
    if len(entries) > 1:
        packages = " and ".join(sorted(map(_package, entries)))
        raise SetupError(
            f"the {kind} {name!r} is provided by {packages}. Uninstall all but one of them."
        )
    return entries[0]


def _entry_points(kind: Kind) -> EntryPoints:
    """Return the entry points of a kind declared by installed packages."""
    group = GROUPS.get(kind)
    return EntryPoints(()) if group is None else _groups(tuple(sys.path))[group]


@cache
def _groups(path: tuple[str, ...]) -> dict[str, EntryPoints]:
    """Return the entry points by group; `path` is `sys.path`, as a cache key."""
    all_entries = entry_points()  # reads all packages once, not once per group
    return {group: all_entries.select(group=group) for group in GROUPS.values()}


def _package(entry: EntryPoint) -> str:
    return "an unknown package" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"
