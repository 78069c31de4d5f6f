"""The machines of reproducible runs: replies are equal bit for bit only on one type of device with the same libraries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MACHINE, OTHER_MACHINES = "reproducible", "other_machines"  # keys of the engine in config.json


def add_machine(engine: Mapping[str, Any], machine: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the record of an engine with another machine on which its run went on, if that differs from all before."""
    others = list(engine.get(OTHER_MACHINES, []))
    known = [recorded for recorded in (engine.get(MACHINE), *others) if recorded]
    if machine is None or not known or any(not _differences(old, machine) for old in known):
        return dict(engine)
    return {**engine, OTHER_MACHINES: [*others, dict(machine)]}


def machine_note(engine: Mapping[str, Any]) -> str | None:
    """Return the caveat of a reproducible run that went on on different machines; otherwise None."""
    differences = [
        difference
        for other in engine.get(OTHER_MACHINES, [])
        for difference in _differences(engine[MACHINE], other)
    ]
    if not differences:
        return None
    return f"not bit-for-bit reproducible: the run changed its machine ({'; '.join(differences)})"


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return the differences between two machines; runs of older versions recorded fewer properties."""
    return [
        f"{name}: {old[name]}, then {new[name]}"
        for name in old
        if name in new and old[name] != new[name]
    ]
