"""Read a PLY file as a mesh, a cloud, or a splat in one of two layouts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.errors import SceneError
from render_agent.scans.formats.cleaning import Scan, ScanKind, triangles, unreadable
from render_agent.scans.formats.intensity import INTENSITY_NAMES, intensity_to_grey
from render_agent.scans.formats.ply.ascii import read_ascii
from render_agent.scans.formats.ply.binary import read_binary
from render_agent.scans.formats.ply.header import MAX_HEADER_BYTES, Columns, read_header
from render_agent.scans.formats.splats import ply_splat


def read_ply(path: Path, size: int) -> Scan:
    """Read a PLY file of `size` bytes, with the file's axes; raise SceneError if it is damaged."""
    with path.open("rb") as file:
        start = file.read(MAX_HEADER_BYTES)
        header = read_header(path, start, size)
        file.seek(header.size)
        up = ply_splat.up_comment(start)
        if ply_splat.is_packed(header):
            return replace(ply_splat.read_packed(path, file, header), up=up)
        if header.order:
            columns, polygons = read_binary(path, file, header, size)
        else:
            columns, polygons = read_ascii(path, file, header)
    if ply_splat.is_original(header):
        return replace(ply_splat.original_scan(path, columns), up=up)
    return vertex_scan(path, columns, None if polygons is None else triangles(polygons))


def ply_kind(path: Path, start: bytes) -> ScanKind:
    """Return the kind of scan in a PLY file from its first bytes; "mesh" if the header is invalid."""
    try:
        header = read_header(path, start, path.stat().st_size)
    except SceneError:
        return "mesh"
    if ply_splat.is_packed(header) or ply_splat.is_original(header):
        return "splat"
    return (
        "mesh" if any(part.name == "face" and part.count for part in header.elements) else "cloud"
    )


def vertex_scan(path: Path, columns: Columns, faces: NDArray[Any] | None) -> Scan:
    """Return a mesh or cloud from PLY vertex columns and faces, (m, 3) or None."""
    if not columns.keys() >= {"x", "y", "z"}:
        raise unreadable(path, "its vertices have no x, y and z properties")
    double = any(columns[axis].dtype.itemsize > 4 for axis in "xyz")
    points = np.empty((len(columns["x"]), 3), np.float64 if double else np.float32)
    for axis, name in enumerate("xyz"):
        points[:, axis] = columns[name]
    return Scan(points, _colours(columns), faces)


def _colours(columns: Columns) -> NDArray[np.uint8] | None:
    names = (
        ("red", "green", "blue"),
        ("r", "g", "b"),
        ("diffuse_red", "diffuse_green", "diffuse_blue"),
    )
    for channels in names:
        if columns.keys() >= set(channels):
            return _as_bytes([columns[name] for name in channels])
    return _grey_of(columns)


def _grey_of(columns: Columns) -> NDArray[np.uint8] | None:
    """Return scanner intensities as grey colours, (n, 3), or None if there are none."""
    for name, values in columns.items():
        if name.lower() in INTENSITY_NAMES:
            return intensity_to_grey(values)
    return None


def _as_bytes(channels: list[NDArray[Any]]) -> NDArray[np.uint8]:
    """Convert three colour channels, (n,) each, to (n, 3) uint8.

    Floats range from 0 to 1 if none exceeds 1, else from 0 to 255. Integers range from 0 to 65535 if any exceeds
    255, else from 0 to 255.
    """
    colours = np.empty((len(channels[0]), 3), np.uint8)
    if all(channel.dtype == np.uint8 for channel in channels):
        scale = 1.0
    else:
        are_integers = all(channel.dtype.kind in "iu" for channel in channels)
        tops = [np.nan_to_num(channel, posinf=0.0).max(initial=0) for channel in channels]
        top = float(max(tops))
        if top <= 1 and not are_integers:
            scale = 255.0
        else:
            scale = 255.0 / 65535.0 if top > 255 and are_integers else 1.0
    for index, channel in enumerate(channels):
        if channel.dtype == np.uint8:
            colours[:, index] = channel
        else:
            with np.errstate(over="ignore"):  # overflowing float32 is clipped to 255
                scaled = np.clip(np.nan_to_num(channel.astype(np.float32) * scale), 0, 255)
            colours[:, index] = np.rint(scaled).astype(np.uint8)
    return colours
