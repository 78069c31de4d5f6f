"""Read the rows of an ASCII PLY file, and any whitespace-separated numbers."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.formats.cleaning import Polygons, unreadable
from render_agent.scans.formats.ply.header import Columns, Element, Header, corner_list, cut_short

Floats = NDArray[np.float64]


def read_ascii(path: Path, file: BinaryIO, header: Header) -> tuple[Columns, Polygons | None]:
    """Return the vertex columns and faces of an ASCII PLY file, with `file` positioned after its header."""
    numbers = text_numbers(path, file.read())
    columns: Columns = {}
    polygons: Polygons | None = None
    for element in header.required():
        if not element.has_lists:
            used = element.count * len(element.properties)
            if used > len(numbers):
                raise cut_short(path, element)
            if element.name == "vertex":
                columns = _cast_columns(element, numbers[:used].reshape(element.count, -1))
        elif element.name == "vertex":
            raise unreadable(path, "its vertices have list properties")
        else:
            corners = corner_list(path, element) if element.name == "face" else None
            face_polygons, used = _lists(path, element, corners, numbers)
            polygons = face_polygons if element.name == "face" else polygons
        numbers = numbers[used:]
    return columns, polygons


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


def _cast_columns(element: Element, table: Floats) -> Columns:
    return {
        column.name: cast_numbers(values, column.type)
        for column, values in zip(element.properties, table.T, strict=True)
    }


def cast_numbers(values: Floats, name: str) -> NDArray[Any]:
    """Cast numbers, (n,), to the numpy type `name`; integers are clipped to the type's range."""
    kind = np.dtype(name)
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        values = np.clip(np.nan_to_num(values), limits.min, limits.max)
    with np.errstate(over="ignore"):
        return values.astype(kind)


def _lists(
    path: Path, element: Element, corners: int | None, numbers: Floats
) -> tuple[Polygons, int]:
    """Return the lists of property `corners` grouped by length, and the count of numbers in all rows."""
    starts, lengths, used = _equal_rows(element, corners, numbers) or _walk(
        path, element, corners, numbers
    )
    polygons: Polygons = {}
    for length in np.unique(lengths[lengths >= 3]):
        indices = numbers[starts[lengths == length, None] + np.arange(length)]
        if not (np.abs(indices) < 2**53).all() or (indices != np.rint(indices)).any():
            raise unreadable(path, "a face has a vertex index that is not an integer")
        polygons[int(length)] = indices.astype(np.int64)
    return polygons, used


ListPositions = tuple[NDArray[np.int64], NDArray[np.int64], int]
"""Start and length of each row's list, (n,) each, and the end of the last row."""


def _equal_rows(element: Element, corners: int | None, numbers: Floats) -> ListPositions | None:
    """Locate the lists if all rows are as long as the first; else return None."""
    position, heads, start = 0, [], 0
    for i, column in enumerate(element.properties):
        if column.count:
            if position >= len(numbers) or numbers[position] not in range(len(numbers)):
                return None
            heads.append(position)
            if i == corners:
                start = position + 1
            position += int(numbers[position])
        position += 1
    used = element.count * position
    if used > len(numbers):
        return None
    table = numbers[:used].reshape(element.count, position)
    if any((table[:, head] != table[0, head]).any() for head in heads):
        return None
    rows = np.arange(element.count, dtype=np.int64) * position
    length = int(table[0, start - 1]) if corners is not None else 0
    return rows + start, np.full(element.count, length, np.int64), used


def _walk(path: Path, element: Element, corners: int | None, numbers: Floats) -> ListPositions:
    """Locate the lists row by row, for rows of different lengths."""
    values = numbers.tolist()
    starts, lengths, position = [], [], 0
    lists = [bool(column.count) for column in element.properties]
    try:
        for _ in range(element.count):
            for i, is_list in enumerate(lists):
                if is_list:
                    length = int(values[position])
                    if length != values[position] or length < 0:
                        raise unreadable(path, f"a list has {values[position]:g} entries")
                    if i == corners:
                        starts.append(position + 1)
                        lengths.append(length)
                    position += length
                position += 1
    except (IndexError, ValueError, OverflowError):  # end of data, or a length is NaN or infinite
        raise cut_short(path, element) from None
    if position > len(values):
        raise cut_short(path, element)
    return np.array(starts, np.int64), np.array(lengths, np.int64), position
