"""Read splats in PLY files: the original layout with a Gaussian per row, and PlayCanvas's compressed one.

Formats: B. Kerbl et al., "3D Gaussian Splatting for Real-Time Radiance Field Rendering" (2023), as their
program writes it; PlayCanvas's compressed PLY as documented by its engine and SuperSplat.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.formats.cleaning import Scan, unreadable
from render_agent.scans.formats.declared import Declared
from render_agent.scans.formats.ply.header import Columns, Header, cut_short
from render_agent.scans.formats.ply.vertices import NORMALS, colours_of
from render_agent.scans.formats.splats.assemble import COEFFICIENTS, check_count, splat_scan
from render_agent.scans.gaussians import CONSTANT_HARMONIC
from render_agent.util.reasons import truncate

SHAPE = {"opacity", "scale_0", "scale_1", "rot_0", "rot_1", "rot_2", "rot_3"}
COLOUR = ("f_dc_0", "f_dc_1", "f_dc_2")
RGB = ("red", "green", "blue")  # in place of COLOUR in splats that Nerfstudio exports as RGB
PACKED = ("packed_position", "packed_rotation", "packed_scale", "packed_color")
LIMITS = tuple(
    f"{end}_{name}"
    for name in ("x", "y", "z", "scale_x", "scale_y", "scale_z", "r", "g", "b")
    for end in ("min", "max")
)
PER_CHUNK = 256  # Gaussians that share the value ranges of a chunk


def is_original(header: Header) -> bool:
    """Return True if the vertices of a PLY file are Gaussians in the original layout."""
    names = _names(header, "vertex")
    has_colour = names >= set(COLOUR) or names >= set(RGB)
    return has_colour and names >= {*SHAPE, "x", "y", "z"}


def is_packed(header: Header) -> bool:
    """Return True if a PLY file is a splat in PlayCanvas's compressed layout."""
    return _names(header, "vertex") >= set(PACKED) and bool(_names(header, "chunk"))


def _names(header: Header, element: str) -> set[str]:
    matching = (part for part in header.elements if part.name == element)
    return {column.name for part in matching for column in part.properties}


def original_scan(path: Path, columns: Columns, declared: Declared) -> Scan:
    """Build the splat from a PLY file's vertex columns; raise SceneError if they are invalid."""
    check_count(path, len(columns.get("x", ())))
    used_names = {"x", "y", "z", *NORMALS, *SHAPE, "scale_2"}
    harmonics = _harmonics(path, columns, declared)
    # Coefficients beyond degree 3 are not rendered.
    varying = [name for name in columns if name.startswith("f_rest_")]
    if len(varying) > 3 * (COEFFICIENTS[-1] - 1):
        declared.add("spherical harmonics of degree 4")
    used_names |= set(varying)
    declared.use(*used_names, *(COLOUR if COLOUR[0] in columns else RGB))
    return splat_scan(
        path,
        _stack(columns, "x", "y", "z"),
        _scales(columns),
        _stack(columns, *(f"rot_{i}" for i in range(4))),
        _sigmoid(columns["opacity"].astype(np.float32)),
        harmonics,
    )


def _stack(columns: Columns, *names: str) -> NDArray[np.float32]:
    with np.errstate(over="ignore", invalid="ignore"):
        return np.stack([columns[name].astype(np.float32) for name in names], axis=1)


def _scales(columns: Columns) -> NDArray[np.float32]:
    """Return the scales, (n, 3); flat (2D) Gaussians have two and get a third of zero."""
    names = [f"scale_{i}" for i in range(3) if f"scale_{i}" in columns]
    with np.errstate(over="ignore", invalid="ignore"):
        scales = np.exp(_stack(columns, *names))
    return np.pad(scales, ((0, 0), (0, 3 - len(names))))


def _sigmoid(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(1 / (1 + np.exp(-logits)), np.float32)


def _harmonics(path: Path, columns: Columns, declared: Declared) -> NDArray[np.float32]:
    """Return the coefficients, (n, k, 3); the file stores all but the first channel by channel."""
    varying = sum(1 for name in columns if re.fullmatch(r"f_rest_\d{1,3}", name))
    names = [f"f_rest_{i}" for i in range(varying)]
    count = _coefficients(path, varying, all(name in columns for name in names))
    harmonics = np.empty((len(columns["x"]), count, 3), np.float32)
    if COLOUR[0] not in columns:
        _, colours = colours_of(columns, declared)
        assert colours is not None
        harmonics[:, 0] = (colours / np.float32(255) - 0.5) / CONSTANT_HARMONIC
    with np.errstate(over="ignore", invalid="ignore"):
        for channel in range(3):
            if COLOUR[0] in columns:
                harmonics[:, 0, channel] = columns[COLOUR[channel]]
            for k in range(1, count):
                harmonics[:, k, channel] = columns[names[channel * (varying // 3) + k - 1]]
    return harmonics


def _coefficients(path: Path, varying: int, are_complete: bool) -> int:
    """Return the number of coefficients per channel, at most 16, given `varying` f_rest properties in the file."""
    count = varying // 3 + 1
    if not are_complete or varying % 3 or count not in (*COEFFICIENTS, 25):
        raise unreadable(
            path, f"its {varying} f_rest properties do not form spherical harmonics of any degree"
        )
    return min(count, COEFFICIENTS[-1])


def read_packed(path: Path, file: BinaryIO, header: Header, declared: Declared) -> Scan:
    """Read a splat in PlayCanvas's compressed layout, with `file` positioned after its header."""
    tables: dict[str, NDArray[Any]] = {}
    for element in header.elements:
        if element.has_lists or not header.order:
            raise unreadable(path, "a compressed splat must be binary and without list properties")
        kinds = [(column.name, header.order + column.type) for column in element.properties]
        if len(dict(kinds)) < len(kinds):
            raise unreadable(
                path, f"its {truncate(element.name, 40)} has two properties with the same name"
            )
        tables[element.name] = np.fromfile(file, np.dtype(kinds), element.count)
        if len(tables[element.name]) < element.count:
            raise cut_short(path, element)
    declared.use(*PACKED, "element chunk", "element sh")
    chunks, rows = tables["chunk"], tables["vertex"]
    limits = set(chunks.dtype.names or ())
    check_count(path, len(rows))
    if len(chunks) * PER_CHUNK < len(rows) or not set(LIMITS[:12]) <= limits:
        raise unreadable(
            path, f"its {len(chunks):,} chunks do not match its {len(rows):,} Gaussians"
        )
    if any(rows.dtype[name].kind not in "iu" for name in PACKED):
        raise unreadable(path, "its packed properties are not integers")
    words = {name: rows[name].astype(np.uint32) for name in PACKED}
    bytes_ = _split(words["packed_color"], (8, 8, 8, 8))
    colours = (
        _rescale(chunks, bytes_[:, :3], ("r", "g", "b"))
        if set(LIMITS[12:]) <= limits
        else bytes_[:, :3]
    )
    constant = (colours - 0.5) / CONSTANT_HARMONIC
    with np.errstate(over="ignore", invalid="ignore"):
        scales = np.exp(
            _rescale(
                chunks,
                _split(words["packed_scale"], (11, 10, 11)),
                ("scale_x", "scale_y", "scale_z"),
            )
        )
    return splat_scan(
        path,
        _rescale(chunks, _split(words["packed_position"], (11, 10, 11)), ("x", "y", "z")),
        scales,
        _rotations(words["packed_rotation"]),
        bytes_[:, 3],
        _packed_coefficients(path, constant, tables.get("sh")),
    )


def _split(words: NDArray[np.uint32], bits: tuple[int, ...]) -> NDArray[np.float32]:
    """Split 32-bit words into bit fields, highest first, each normalised to 0 to 1: (n, k)."""
    parts = np.empty((len(words), len(bits)), np.float32)
    shift = 32
    for index, width in enumerate(bits):
        shift -= width
        parts[:, index] = (words >> np.uint32(shift) & np.uint32((1 << width) - 1)) / np.float32(
            (1 << width) - 1
        )
    return parts


def _rescale(
    chunks: NDArray[Any], shares: NDArray[np.float32], names: tuple[str, str, str]
) -> NDArray[np.float32]:
    """Scale shares, (n, 3) from 0 to 1, to the value ranges of their chunks."""
    chunk = np.arange(len(shares)) // PER_CHUNK
    values = np.empty_like(shares)
    with np.errstate(over="ignore", invalid="ignore"):
        for axis, name in enumerate(names):
            low, high = (
                chunks[f"{end}_{name}"].astype(np.float32)[chunk] for end in ("min", "max")
            )
            values[:, axis] = low + shares[:, axis] * (high - low)
    return values


def _rotations(words: NDArray[np.uint32]) -> NDArray[np.float32]:
    """Unpack quaternions, (n, 4): two bits for the index of the largest component, then the other three."""
    components = (_split(words, (2, 10, 10, 10))[:, 1:] - 0.5) * np.float32(np.sqrt(2))
    largest_index = (words >> np.uint32(30)).astype(np.intp)
    return complete_quaternions(components, largest_index)


def complete_quaternions(
    components: NDArray[np.float32], largest_index: NDArray[np.intp]
) -> NDArray[np.float32]:
    """Return unit quaternions, (n, 4), from three components, (n, 3), and the index of the omitted largest one, (n,)."""
    quaternions = np.empty((len(components), 4), np.float32)
    other_indices = np.array([[j for j in range(4) if j != i] for i in range(4)])
    rows = np.arange(len(components))
    quaternions[rows[:, None], other_indices[largest_index]] = components
    quaternions[rows, largest_index] = np.sqrt(np.maximum(1 - (components**2).sum(axis=1), 0))
    return quaternions


def _packed_coefficients(
    path: Path, constant: NDArray[np.float32], table: NDArray[Any] | None
) -> NDArray[np.float32]:
    """Return the coefficients, (n, k, 3); the varying ones are bytes that range from -4 to 4."""
    names = [] if table is None else list(table.dtype.names or ())
    varying = [f"f_rest_{i}" for i in range(len(names))]
    count = _coefficients(path, len(names), set(varying) == set(names))
    harmonics = np.empty((len(constant), count, 3), np.float32)
    harmonics[:, 0] = constant
    if table is not None and count > 1:
        if len(table) != len(constant):
            raise unreadable(path, "the numbers of its spherical harmonics and Gaussians differ")
        for channel in range(3):
            for k in range(1, count):
                shares = table[varying[channel * (len(names) // 3) + k - 1]].astype(np.float32)
                # 0 and 255 decode to the ends of the range, other values to the middle of their step.
                middle = np.where(shares <= 0, 0, np.where(shares >= 255, 256, shares + 0.5))
                harmonics[:, k, channel] = (middle / 256 - 0.5) * 8
    return harmonics
