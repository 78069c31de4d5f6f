"""What was found out about decisions, kept beside a training, so that it is looked at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from msgspec import Struct

from render_agent.agents.verifiers.base import FloatArray
from render_agent.errors import SetupError, os_errors
from render_agent.text.safe_parse import Count, Finite, MisfitError, decode, encode

VERSION = 1
"""Raised whenever the same decision would be judged otherwise."""

NAMES = ("found", "surface", "geometry")
"""The figures of a label."""

Key = tuple[str, str, int]
"""The path of a run, the id of a question, and the turn."""


Numbers = list[Finite | None]


class LabelLine(Struct, frozen=True):
    """A line of the file; None stands for what nobody knows."""

    version: Count
    key: tuple[str, str, Count]
    found: Numbers
    surface: Numbers
    geometry: Numbers


@dataclass(frozen=True, slots=True, eq=False)
class Label:
    """What the candidates of a decision would show: found, surface and geometry of `Decision`, (K,) each."""

    found: FloatArray
    surface: FloatArray
    geometry: FloatArray

    def __len__(self) -> int:
        return len(self.found)


class Labels:
    """Labels by decision, in a file to which they are appended; without a file they are not kept."""

    def __init__(self, file: Path | None = None) -> None:
        self.file = file
        self._known: dict[Key, Label] = {}
        if file is not None and file.exists():
            self._read(file)

    def get(self, key: Key, candidates: int) -> Label | None:
        """Return the label of a decision with so many candidates, None where there is none."""
        label = self._known.get(key)
        return label if label is not None and len(label) == candidates else None

    def add(self, labelled: Iterable[tuple[Key, Label]]) -> None:
        """Keep some labels. SetupError where they cannot be written."""
        lines = []
        for key, label in labelled:
            self._known[key] = label
            lines.append(
                LabelLine(VERSION, key, *(_numbers(getattr(label, name)) for name in NAMES))
            )
        if self.file is not None and lines:
            with os_errors(SetupError, f"write {self.file}"):
                self.file.parent.mkdir(parents=True, exist_ok=True)
                with self.file.open("ab") as file:
                    file.writelines(map(encode, lines))

    def _read(self, file: Path) -> None:
        for number, line in enumerate(file.read_bytes().splitlines(), start=1):
            try:
                data: LabelLine = decode(line, LabelLine)
            except MisfitError as error:
                raise SetupError(
                    f"{file}, line {number} is no label: {error}; remove the file"
                ) from error
            except ValueError:  # the last line of a training that was killed
                continue
            if data.version == VERSION:
                self._known[data.key] = Label(*(_array(getattr(data, name)) for name in NAMES))


def _numbers(values: FloatArray) -> Numbers:
    return [None if np.isnan(value) else float(value) for value in values]


def _array(values: Numbers) -> FloatArray:
    return np.array([np.nan if value is None else value for value in values], np.float64)
