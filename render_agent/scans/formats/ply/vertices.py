"""Points and colours of PLY elements, from whichever names programs give them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.formats.cleaning import Scan, unreadable
from render_agent.scans.formats.colours import (
    INTENSITY_NAMES,
    colour_bytes,
    intensity_to_grey,
)
from render_agent.scans.formats.declared import Declared
from render_agent.scans.formats.ply.header import Columns

COLOUR_NAMES = (
    ("red", "green", "blue"),
    ("r", "g", "b"),
    ("diffuse_red", "diffuse_green", "diffuse_blue"),
)
ALPHA_NAMES = ("alpha", "a", "diffuse_alpha")
# Not needed: shading uses the normals of the surface.
NORMALS = ("nx", "ny", "nz", "normal_x", "normal_y", "normal_z", "curvature")


def vertex_scan(path: Path, columns: Columns, declared: Declared) -> Scan:
    """Return a cloud of the vertices of a PLY file."""
    if not columns.keys() >= {"x", "y", "z"}:
        raise unreadable(path, "its vertices have no x, y and z properties")
    double = any(columns[axis].dtype.itemsize > 4 for axis in "xyz")
    points = np.empty((len(columns["x"]), 3), np.float64 if double else np.float32)
    for axis, name in enumerate("xyz"):
        points[:, axis] = columns[name]
    names, colours = colours_of(columns, declared)
    intensity = next((name for name in columns if name in INTENSITY_NAMES), None)
    if colours is None and intensity is not None:
        names, colours = (intensity,), intensity_to_grey(columns[intensity])
    declared.use("x", "y", "z", *NORMALS, *names, *opaque_alpha(columns))
    return Scan(points, colours)


def colours_of(
    columns: Columns, declared: Declared
) -> tuple[tuple[str, ...], NDArray[np.uint8] | None]:
    """Return the names and values, (n, 3), of the colours of an element, or None if it has none."""
    for names in COLOUR_NAMES:
        if columns.keys() >= set(names):
            colours = np.column_stack([columns[name] for name in names])
            declared.add_nan(colours)
            return names, colour_bytes(colours)
    return (), None


def opaque_alpha(columns: Columns) -> tuple[str, ...]:
    """Return the names of alpha channels that are the same everywhere: their maximum, 1, or never filled (0)."""
    return tuple(
        name
        for name in ALPHA_NAMES
        if name in columns
        and len(columns[name])
        and columns[name][0] in (0, 1, 255, 65535)
        and (columns[name] == columns[name][0]).all()
    )
