"""A scan's file read as a scene."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Literal

from render_agent.geometry.placement import Axis, upright_turn
from render_agent.scene.extent import Extent, extent
from render_agent.scene.formats.axis_alignment import read_alignment
from render_agent.scene.formats.cleaning import (
    LARGEST_METRES,
    Scan,
    cleaned,
    placed,
    unreadable,
)
from render_agent.scene.formats.point_cloud import shaded_cloud, shaded_mesh, thinned
from render_agent.scene.formats.registry import format_of
from render_agent.scene.model import Scene

Up = Literal["auto"] | Axis


def load_scene(path: Path, id: str | None = None, up: Up = "auto") -> Scene:
    """Return the scene of a PLY, GLB, glTF, OBJ, STL or OFF file.

    id: the scene's name; without it, the file's. up: the axis of the file that points up; `auto` is
    y for GLB, glTF and OBJ, else z. Scans without colours are shaded, clouds of too many points
    thinned, scans far from zero moved (see `Scene.origin`), ScanNet's meshes aligned as the text file
    beside them says. SceneError where the file holds no scene; nothing is allocated on its header's
    word alone.
    """
    path = Path(path)
    try:
        scan = read_scan(path, up)
        alignment = read_alignment(path)
        if alignment is not None:
            scan = placed(scan, alignment[:3, :3], shift=alignment[:3, 3])
        scan = cleaned(scan, path)
        if scan.faces is None:
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
    form = format_of(path)
    scan = form.read(path, size)
    return placed(scan, upright_turn(form.up if up == "auto" else up))


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
    colours = scan.colours
    if colours is None and scan.faces is not None:
        colours = shaded_mesh(scan.points, scan.faces)
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
        texture=scan.texture,
        gaussians=scan.gaussians,
        notes=scan.notes,
    )
