"""Parse a PLY header, and check its counts against the file size before anything is allocated.

Format: Greg Turk, "The PLY Polygon File Format" (1994), plus the sized type names of later programs.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from render_agent.errors import SceneError
from render_agent.scans.formats.cleaning import unreadable
from render_agent.scans.formats.declared import decode_text
from render_agent.util.reasons import short_repr, truncate

MAX_HEADER_BYTES = 1 << 20

TYPES = {
    "char": "i1", "int8": "i1", "uchar": "u1", "uint8": "u1",
    "short": "i2", "int16": "i2", "ushort": "u2", "uint16": "u2",
    "int": "i4", "int32": "i4", "uint": "u4", "uint32": "u4",
    "float": "f4", "float32": "f4", "double": "f8", "float64": "f8",
}  # fmt: skip

Columns = dict[str, NDArray[Any]]
"""Values of an element's rows by property name, (n,) each."""

FORMATS: dict[str, Literal["", "<", ">"]] = {
    "ascii": "",
    "binary_little_endian": "<",
    "binary_big_endian": ">",
}


# Names of the list property with a face's or strip's vertex indices.
CORNER_NAMES = ("vertex_indices", "vertex_index")
STRIPS = "tristrips"
READ = ("vertex", "face", STRIPS)  # elements that are read


@dataclass(frozen=True, slots=True)
class Property:
    """A column: numpy's names of its type and of its list length's type; `count` is None if it is not a list."""

    name: str
    type: str
    count: str | None = None


@dataclass(frozen=True, slots=True)
class Element:
    """A table of `count` rows, such as the vertices or the faces."""

    name: str
    count: int
    properties: tuple[Property, ...]

    @property
    def has_lists(self) -> bool:
        """True if the element has list properties, so that its rows may differ in length."""
        return any(column.count for column in self.properties)

    def least_bytes(self, binary: bool) -> int:
        """Return the minimum length of a row: lists may be empty, an ASCII number is a digit and a space."""
        if not binary:
            return 2 * len(self.properties)
        return sum(np.dtype(column.count or column.type).itemsize for column in self.properties)


@dataclass(frozen=True, slots=True)
class Header:
    order: Literal["", "<", ">"]
    elements: tuple[Element, ...]  # in the order of the file, with lower-case names
    size: int  # size of the header in bytes
    comments: tuple[str, ...] = ()

    def required_elements(self) -> tuple[Element, ...]:
        """The non-empty elements up to the last that is read."""
        nonempty = tuple(element for element in self.elements if element.count)
        last = max((i for i, e in enumerate(nonempty) if e.name in READ), default=-1)
        return nonempty[: last + 1]

    def row_size(self) -> float:
        """Minimum size of a row after the required elements, in bytes or numbers; infinite if more are declared."""
        required = self.required_elements()
        if not required or required[-1] != [e for e in self.elements if e.count][-1]:
            return math.inf
        last = required[-1]
        return last.least_bytes(binary=True) if self.order else len(last.properties)

    def comment(self, pattern: str) -> tuple[str, ...]:
        """Return the first group of each comment that matches a pattern, ignoring case."""
        matches = (re.fullmatch(pattern, text, re.IGNORECASE) for text in self.comments)
        return tuple(match[1] for match in matches if match)


def read_header(path: Path, start: bytes, file_size: int) -> Header:
    """Parse the header of a PLY file from its first bytes."""
    header_end = re.search(rb"(?:^|[\r\n])end_header[ \t]*(\r\n|\n|\r)", start)
    if not header_end:
        raise unreadable(path, "its PLY header is incomplete")
    if not re.match(rb"(?:\xef\xbb\xbf)?ply[ \t]*[\r\n]", start):
        raise unreadable(path, "it does not start like a PLY file")
    text = start[: header_end.start(1)]
    end = header_end.end(1)
    if header_end[1] == b"\r\n" and b"\n" not in text:
        end -= 1  # lines end with \r, and the data starts with a byte that looks like \n
    lines = re.split(r"\r\n|\n|\r", decode_text(text))
    order, elements = _parse(path, lines)
    comments = (re.match(r"\s*(?:comment|obj_info)\s++(.*\S)", line) for line in lines)
    values = tuple(match[1] for match in comments if match)
    header = Header(order, elements, min(end, file_size), values)
    _check_promises(path, header, file_size - header.size)
    return header


def _parse(path: Path, lines: list[str]) -> tuple[Literal["", "<", ">"], tuple[Element, ...]]:
    order: Literal["", "<", ">"] | None = None
    elements: list[Element] = []
    for line in lines:
        match line.split():
            case ["format", name, *_] if name in FORMATS:
                order = FORMATS[name]
            case ["element", name, count] if re.fullmatch(r"\d{1,15}", count):
                elements.append(Element(name.lower(), int(count), ()))
            case ["property", *words] if elements and (column := _column(words)):
                last = elements[-1]
                elements[-1] = Element(last.name, last.count, (*last.properties, column))
            case ["format" | "element" | "property", *_]:
                raise unreadable(path, f"its PLY header has an invalid line: {short_repr(line)}")
            case _:  # comments, also those of programs that omit the keyword
                pass
    if order is None:
        raise unreadable(path, "its PLY header specifies no format")
    if len({element.name for element in elements}) < len(elements):
        raise unreadable(path, "its PLY header has two elements with the same name")
    return order, tuple(elements)


def _column(words: list[str]) -> Property | None:
    match words:
        case ["list", count, kind, name] if kind in TYPES and TYPES.get(count, "f")[0] != "f":
            return Property(name.lower(), TYPES[kind], TYPES[count])
        case [kind, name] if kind in TYPES:
            return Property(name.lower(), TYPES[kind])
    return None


def _check_promises(path: Path, header: Header, remaining: int) -> None:
    # The last number of an ASCII file needs no trailing space.
    available = remaining if header.order else remaining + 1
    for element in header.elements:
        min_bytes = element.count * element.least_bytes(bool(header.order))
        if min_bytes > available:
            raise unreadable(
                path,
                f"its header declares {element.count:,} rows of {truncate(element.name, 40)},"
                f" more than fit in the remaining {remaining:,} bytes",
            )
        available -= min_bytes


def cut_short(path: Path, element: Element) -> SceneError:
    """Return the error for a file that ends before an element's last row."""
    return unreadable(
        path,
        f"it ends before the last of its {element.count:,} rows of {truncate(element.name, 40)}",
    )


def corner_list(path: Path, element: Element) -> int:
    """Return the index of the property that lists the vertex indices of a face or strip."""
    for i, column in enumerate(element.properties):
        if column.name in CORNER_NAMES and column.count:
            if column.type[0] == "f":
                break
            return i
    raise unreadable(path, "its faces have no vertex indices")
