"""The rows of a PLY element, and how those of different lengths are gathered."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.formats.cleaning import unreadable
from render_agent.scans.formats.ply.header import (
    CORNER_NAMES,
    Columns,
    Element,
    Property,
    cut_short,
)

# Other lists are not gathered.
GATHERED_LISTS = (*CORNER_NAMES, "texcoord")

Lists = dict[int, tuple[NDArray[np.intp], NDArray[Any]]]
"""Entries of a list property by length: the rows with this length, (n,), and their entries, (n, length)."""

Spans = dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]]
"""By property index: where each row's list starts and how many entries it has, (n,) each."""


@dataclass(frozen=True)
class Rows:
    """Values of an element: scalar properties by name, (n,) each, and lists by name and length."""

    scalars: Columns = field(default_factory=dict)
    lists: dict[str, Lists] = field(default_factory=dict)

    def polygons(self, at_least: int = 3) -> Lists:
        """Return the lists of vertex indices with at least this many entries."""
        name = next((name for name in CORNER_NAMES if name in self.lists), "")
        return {
            length: group
            for length, group in sorted(self.lists.get(name, {}).items())
            if length >= at_least and len(group[0])
        }


def walk_rows(
    path: Path,
    element: Element,
    size: Callable[[str], int],  # of a value of a type, in the unit of positions
    reader: Callable[[str], Callable[[int], float]],  # reads values of a type at positions
    available: int,
) -> tuple[Spans, int]:
    """Locate the lists in rows of different lengths, row by row; return them and the position after the last row."""
    steps: list[tuple[int, Callable[[int], float], int, int, list[int], list[int]]] = []
    gap = 0
    for column in element.properties:
        if column.count:
            sizes = size(column.count), size(column.type)
            steps.append((gap, reader(column.count), *sizes, [], []))
            gap = 0
        else:
            gap += size(column.type)
    position = 0
    try:
        for _ in range(element.count):
            for before, read, head, width, starts, lengths in steps:
                position += before
                value = read(position)
                length = int(value)
                if length != value or length < 0:
                    raise unreadable(path, f"a list has {value:g} entries")
                position += head
                starts.append(position)
                lengths.append(length)
                position += length * width
            position += gap
    # end of data, or a length is NaN or infinite
    except (struct.error, IndexError, ValueError, OverflowError):
        position = available + 1
    if position > available:
        raise cut_short(path, element)
    lists = [i for i, column in enumerate(element.properties) if column.count]
    return {
        i: (np.array(starts, np.int64), np.array(lengths, np.int64))
        for i, (*_, starts, lengths) in zip(lists, steps, strict=True)
    }, position


def gather_rows(
    element: Element,
    spans: Spans,
    size: Callable[[str], int],
    # returns a given number of entries of a property from each position, (n, length)
    take: Callable[[NDArray[np.int64], int, Property], NDArray[Any]],
) -> Rows:
    """Gather the values of rows of different lengths."""
    rows = Rows()
    first = min(spans)
    starts = spans[first][0] - size(element.properties[first].count or "")
    at = starts - sum(size(column.type) for column in element.properties[:first])
    for i, column in enumerate(element.properties):
        if not column.count:
            rows.scalars.setdefault(column.name, take(at, 1, column)[:, 0])
            at = at + size(column.type)
            continue
        starts, lengths = spans[i]
        if column.name in GATHERED_LISTS and column.name not in rows.lists:
            groups: Lists = {}
            for length in np.unique(lengths):
                rows_of_length = np.flatnonzero(lengths == length)
                groups[int(length)] = (
                    rows_of_length,
                    take(starts[rows_of_length], int(length), column),
                )
            rows.lists[column.name] = groups
        at = starts + lengths * size(column.type)
    return rows
