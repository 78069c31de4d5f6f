"""A scan's file read as a scene."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np

from render_agent.scene.extent import Extent, extent
from render_agent.scene.formats.axis_alignment import aligned, read_alignment, splat_scene
from render_agent.scene.formats.cleaning import (
    LARGEST_METRES,
    Scan,
    cleaned,
    triangles,
    turned_up,
    unreadable,
)
from render_agent.scene.formats.meshes import UP_AXIS, read_other
from render_agent.scene.formats.ply import LONGEST_HEADER, read_ascii, read_header, vertex_scan
from render_agent.scene.formats.ply_binary import read_binary
from render_agent.scene.formats.point_cloud import lit_mesh, shaded_cloud, thinned
from render_agent.scene.formats.splats.recognise import read_splat
from render_agent.scene.model import Scene
from render_agent.scene.solid import solid

Up = Literal["auto", "y", "z"]


def load_scene(
    path: Path, id: str | None = None, up: Up = "auto", alignments: Sequence[str] = ()
) -> Scene:
    """Return the scene of a PLY, GLB, glTF, OBJ, STL or OFF file.

    id: the scene's name; without it, the file's. up: the axis of the file that points up; `auto` is
    y for GLB, glTF and OBJ, else z. alignments: the folders of ScanNet, in which the alignments of its splats
    lie. Scans without colours are shaded, clouds of too many points
    thinned, scans far from zero moved (see `Scene.origin`), ScanNet's meshes aligned as the text file
    beside them says. SceneError where the file holds no scene; nothing is allocated on its header's
    word alone.
    """
    path = Path(path)
    try:
        scan = read_scan(path, up)
        alignment = read_alignment(path, alignments)
        if alignment is not None:
            scan = aligned(scan, alignment)
        scan = cleaned(scan, path)
        if scan.gaussians is not None:
            found = solid(scan.points, scan.gaussians)
            scan = replace(scan, gaussians=replace(scan.gaussians, solid=found))
        elif scan.faces is None:
            scan = thinned(scan)
        measured = extent(scan)
        spread = float((measured.bounds[1] - measured.bounds[0]).max())
        if not 0.01 < spread <= LARGEST_METRES:
            raise unreadable(path, f"it is {spread:,.3g} m wide", "export it in metres")
        return _scene(scan, measured, path, path.stem if id is None else id)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise unreadable(path, why, "check its name and its permissions") from None
    except MemoryError:
        raise unreadable(path, "it needs more memory than there is", "thin it out") from None


def read_scan(path: Path, up: Up) -> Scan:
    """Return what the file holds, z up, unchecked. SceneError where it is not whole."""
    size = _size(path)
    splat = read_splat(path, size)
    if splat is not None:
        scan, own = splat
        if splat_scene(path) is not None:
            scan, own = replace(scan, notes=scan.notes[:-1]), "z"
        return turned_upright(scan, own if up == "auto" else up)
    with path.open("rb") as file:
        start = file.read(LONGEST_HEADER)
        if start.startswith(b"ply"):
            header = read_header(path, start, size)
            file.seek(header.size)
            if header.order:
                columns, polygons = read_binary(path, file, header, size)
            else:
                columns, polygons = read_ascii(path, file, header)
            faces = None if polygons is None else triangles(polygons)
            scan, axis = vertex_scan(path, columns, faces), "z"
        else:
            scan, axis = read_other(path, size), UP_AXIS[path.suffix.lower()]
    return turned_up(scan) if (axis if up == "auto" else up) == "y" else scan


UPRIGHT = {
    "x": ((0, 1, 0), (0, 0, 1), (1, 0, 0)),
    "-x": ((0, 0, 1), (0, 1, 0), (-1, 0, 0)),
    "y": ((1, 0, 0), (0, 0, -1), (0, 1, 0)),
    "-y": ((1, 0, 0), (0, 0, 1), (0, -1, 0)),
    "z": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "-z": ((1, 0, 0), (0, -1, 0), (0, 0, -1)),
}
"""The turn, (3, 3), that makes the axis of a file that points up its z axis."""


def turned_upright(scan: Scan, up: str) -> Scan:
    """Return a splat turned so that its axis `up` is its z axis."""
    turn = np.array(UPRIGHT[up], np.float64)
    points = scan.points @ turn.T.astype(scan.points.dtype)
    gaussians = None if scan.gaussians is None else scan.gaussians.turned(turn)
    return replace(scan, points=points, gaussians=gaussians)


def _size(path: Path) -> int:
    """Return the length in bytes of a file that can be read."""
    if "\0" in str(path):
        raise unreadable(path, "a file name has no zero byte in it", "check its name")
    status = path.stat()
    if stat.S_ISDIR(status.st_mode):
        raise unreadable(path, "it is a directory", "name the file of the scan in it")
    if not stat.S_ISREG(status.st_mode):
        raise unreadable(path, "it is no ordinary file", "copy the scan into one")
    if not status.st_size:
        raise unreadable(path, "it is empty")
    return status.st_size


def _scene(scan: Scan, measured: Extent, path: Path, name: str) -> Scene:
    low, high = (float(corner[2]) for corner in measured.bounds)
    colours, texture = scan.colours, scan.texture
    if scan.faces is not None:
        colours = lit_mesh(scan.points, scan.faces, colours, texture)
    elif colours is None:
        colours = shaded_cloud(scan.points, low, high)
    return Scene(
        name,
        scan.points,
        colours,
        scan.faces,
        measured.floor,
        measured.ceiling,
        measured.bounds,
        path,
        scan.origin,
        texture=texture if texture is not None and texture.has_pictures else None,
        gaussians=scan.gaussians,
        notes=scan.notes,
    )
