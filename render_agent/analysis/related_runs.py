"""Sibling runs: those in the same folder that differ in what was shown, and in nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from render_agent.config import OPTIONS, fingerprint_of
from render_agent.errors import RunLogError
from render_agent.runs.log.folder import RunFolder, list_runs

Shown = Literal["pictures", "views", "tools"]

COMPARED: tuple[Shown, ...] = ("pictures", "views", "tools")
"""The options in which siblings may differ, one at a time."""


@dataclass(frozen=True, slots=True)
class Sibling:
    """A finished run beside another one, over the same questions.

    option: the one in which they differ. value: the sibling's; the other run's own is in its config.
    results: the sibling's `results.json`; `results["mirrored"]` is there where its rooms were mirrored.
    """

    name: str
    path: Path
    option: Shown
    value: str
    results: Mapping[str, Any]


def siblings(folder: RunFolder) -> list[Sibling]:
    """Return the finished runs in the same output folder that differ in --pictures, --views or --tools alone.

    Of several with one value the newest counts. They come by option, then in the order in which the
    option lists its values. Run folders that cannot be read are passed over.
    """
    newest: dict[tuple[Shown, str], Sibling] = {}
    for path in list_runs(folder.path.parent):
        try:
            other = RunFolder(path)
            option = _only_difference(folder, other)
            results = other.results() if option else None
        except RunLogError:  # somebody's unfinished edit
            continue
        if option and results is not None:
            value = _option_value(other, option)
            newest[option, value] = Sibling(other.name, path, option, value, results)
    return sorted(newest.values(), key=_order)


def _only_difference(run: RunFolder, other: RunFolder) -> Shown | None:
    """Return the only option in which the results of two runs may differ, None where there is no such."""
    if run.record["sha256"]["questions"] != other.record["sha256"]["questions"]:
        return None
    differing = [
        option for option in COMPARED if _option_value(run, option) != _option_value(other, option)
    ]
    if len(differing) != 1 or _rest(run) != _rest(other):
        return None
    return differing[0]


def _option_value(folder: RunFolder, option: Shown) -> str:
    """Return the value of an option; a run of an earlier version has its default."""
    return str(folder.record["config"].get(option, OPTIONS[option].default))


def _rest(folder: RunFolder) -> str:
    """Return the fingerprint of all other options that change results."""
    options = {name: entry.default for name, entry in OPTIONS.items()} | folder.record["config"]
    return fingerprint_of(options | dict.fromkeys(COMPARED))


def _order(sibling: Sibling) -> tuple[int, int]:
    values = list(OPTIONS[sibling.option].metadata["choices"])
    rank = values.index(sibling.value) if sibling.value in values else len(values)
    return COMPARED.index(sibling.option), rank
