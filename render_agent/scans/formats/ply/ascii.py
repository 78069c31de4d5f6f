"""Read the rows of an ASCII PLY file, and any whitespace-separated numbers."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.formats.cleaning import unreadable
from render_agent.scans.formats.ply.header import (
    CORNER_NAMES,
    READ,
    STRIPS,
    Element,
    Header,
    Property,
    corner_list,
    cut_short,
)
from render_agent.scans.formats.ply.rows import Rows, Spans, gather_rows, walk_rows

Floats = NDArray[np.float64]


def read_ascii(path: Path, file: BinaryIO, header: Header) -> tuple[dict[str, Rows], int]:
    """Return the rows after the header of an ASCII PLY file, and the count of numbers after them."""
    numbers = text_numbers(path, file.read())
    tables: dict[str, Rows] = {}
    for element in header.required_elements():
        if element.name in ("face", STRIPS):
            corner_list(path, element)
        if not element.has_lists:
            num_numbers = element.count * len(element.properties)
            if num_numbers > len(numbers):
                raise cut_short(path, element)
            if element.name == "vertex":
                table = numbers[:num_numbers].reshape(element.count, -1)
                columns = zip(element.properties, table.T, strict=True)
                tables[element.name] = Rows(
                    {column.name: cast_numbers(values, column.type) for column, values in columns}
                )
        else:
            equal = _equal_rows(element, numbers)
            spans, num_numbers = equal or _walk(path, element, numbers.tolist())
            if element.name in READ:
                tables[element.name] = _rows(path, element, spans, numbers)
        numbers = numbers[num_numbers:]
    return tables, len(numbers)


def text_numbers(path: Path, text: bytes) -> Floats:
    """Parse whitespace-separated numbers, (n,); raise SceneError if the text contains anything else."""
    if not text.strip():
        return np.empty(0)
    with warnings.catch_warnings():
        # On invalid text, numpy before 2.3 only warns and stops parsing.
        warnings.simplefilter("error", DeprecationWarning)
        try:
            return np.fromstring(text, np.float64, sep=" ")
        except (ValueError, DeprecationWarning):
            raise unreadable(path, "its rows contain text that is not a number") from None


def cast_numbers(values: Floats, name: str) -> NDArray[Any]:
    """Cast numbers to the numpy type `name`; integers are clipped to the type's range."""
    kind = np.dtype(name)
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        values = np.clip(np.nan_to_num(values), limits.min, limits.max)
    with np.errstate(over="ignore"):
        return values.astype(kind)


def _rows(path: Path, element: Element, spans: Spans, numbers: Floats) -> Rows:
    """Return the values of rows with lists."""

    def take(places: NDArray[np.int64], length: int, column: Property) -> NDArray[Any]:
        values = numbers[places[:, None] + np.arange(length)]
        if column.name not in CORNER_NAMES:
            return cast_numbers(values, column.type)
        if not (np.abs(values) < 2**53).all() or (values != np.rint(values)).any():
            raise unreadable(path, "a face has a vertex index that is not an integer")
        corners: NDArray[np.int64] = values.astype(np.int64)
        return corners

    return gather_rows(element, spans, lambda kind: 1, take)


def _equal_rows(element: Element, numbers: Floats) -> tuple[Spans, int] | None:
    """Locate the lists if all rows are as long as the first; return them and the count of numbers, else None."""
    position, heads = 0, {}
    for i, column in enumerate(element.properties):
        if column.count:
            if position >= len(numbers) or numbers[position] not in range(len(numbers)):
                return None
            heads[i] = position
            position += int(numbers[position])
        position += 1
    num_numbers = element.count * position
    if num_numbers > len(numbers):
        return None
    table = numbers[:num_numbers].reshape(element.count, position)
    if any((table[:, head] != table[0, head]).any() for head in heads.values()):
        return None
    rows = np.arange(element.count, dtype=np.int64) * position
    spans: Spans = {
        i: (rows + head + 1, np.full(element.count, int(table[0, head]), np.int64))
        for i, head in heads.items()
    }
    return spans, num_numbers


def _walk(path: Path, element: Element, numbers: list[float]) -> tuple[Spans, int]:
    return walk_rows(path, element, lambda _: 1, lambda _: numbers.__getitem__, len(numbers))
