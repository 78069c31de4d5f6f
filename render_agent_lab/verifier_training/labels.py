"""What was found out about decisions, kept beside a training, so that it is looked at once."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from render_agent.agents.verifiers.base import FloatArray
from render_agent.errors import SetupError
from render_agent.text.forms import COUNT, FINITE, Either, Form, misfit
from render_agent.text.safe_parse import parse_json

VERSION = 1
"""Raised whenever the same decision would be judged otherwise."""

NUMBERS = [Either((None, FINITE))]
LINE: Form = {
    "version": COUNT,
    "key": (str, str, COUNT),
    "found": NUMBERS,
    "surface": NUMBERS,
    "geometry": NUMBERS,
}
"""What a line of the file holds."""

Key = tuple[str, str, int]
"""The path of a run, the id of a question, and the turn."""


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

    def add(self, found: Iterable[tuple[Key, Label]]) -> None:
        """Keep some labels. SetupError where they cannot be written."""
        lines = []
        for key, label in found:
            self._known[key] = label
            numbers = {
                name: [None if np.isnan(x) else float(x) for x in getattr(label, name)]
                for name in ("found", "surface", "geometry")
            }
            lines.append(json.dumps({"version": VERSION, "key": key, **numbers}) + "\n")
        if self.file is not None and lines:
            try:
                self.file.parent.mkdir(parents=True, exist_ok=True)
                with self.file.open("a", encoding="utf-8") as file:
                    file.writelines(lines)
            except OSError as error:
                raise SetupError(f"cannot write {self.file}: {error.strerror}") from error

    def _read(self, file: Path) -> None:
        for number, line in enumerate(file.read_bytes().splitlines(), start=1):
            try:
                data = parse_json(line)
            except ValueError:  # the last line of a training that was killed
                continue
            if wrong := misfit(data, LINE):
                raise SetupError(f"{file}, line {number} is no label: {wrong}; remove the file")
            if data["version"] == VERSION:
                run, question, turn = data["key"]
                arrays = (
                    np.array([np.nan if x is None else x for x in data[name]], float)
                    for name in ("found", "surface", "geometry")
                )
                self._known[run, question, turn] = Label(*arrays)
