"""What installed packages bring: engines, renderers, benchmarks and kinds of view of their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from render_agent import registry
from render_agent.doctor.finding import Finding
from render_agent.doctor.probe import ask

PART = "packages"
SECONDS = 120.0
"""How long importing a part may take."""


def examine_packages() -> Iterator[Finding]:
    """Give of every part that an installed package brings whether it can be imported, in a process of its own."""
    for kind in registry.GROUPS:
        for name in registry.brought(kind):
            answer = ask(__name__, "import_part", kind, name, seconds=SECONDS)
            remedy = "" if answer.explained else "mend the package that brings it, or uninstall it"
            detail = answer.error or answer.found["package"]
            yield Finding(PART, f"{kind} {name}", answer.error is None, detail, remedy)


def import_part(kind: registry.Kind, name: str) -> dict[str, Any]:
    """Import what makes a part, and return the package that brings it. SetupError as in `registry.load`."""
    registry.load(kind, name)
    return {"package": registry.package(kind, name)}
