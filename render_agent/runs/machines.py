"""Machines of reproducible runs. Replies are identical only on the same type of device with the same libraries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MACHINE, OTHER_MACHINES = "reproducible", "other_machines"  # keys of the engine in config.json


def add_machine(engine: Mapping[str, Any], machine: Mapping[str, Any] | None) -> dict[str, Any]:
    """Add a machine on which a run was resumed to the record of its engine, if it differs from all earlier ones."""
    others = list(engine.get(OTHER_MACHINES, []))
    earlier = [recorded for recorded in (engine.get(MACHINE), *others) if recorded]
    if machine is None or not earlier or any(not _differences(old, machine) for old in earlier):
        return dict(engine)
    return {**engine, OTHER_MACHINES: [*others, dict(machine)]}


def machine_note(engine: Mapping[str, Any]) -> str | None:
    """Return the caveat for a reproducible run that was resumed on a different machine; otherwise None."""
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
