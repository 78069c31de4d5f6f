"""Scans in memory written as PLY files, so that a run or a scene can be opened from them."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from render_agent.errors import SceneError
from render_agent.scene.formats.cleaning import Scan
from render_agent.scene.formats.meshes import scan_of_geometry
from render_agent.scene.formats.ply_binary import binary_ply
from render_agent.scene.model import Scene
from render_agent.scene.stand_in.annotations import is_annotations
from render_agent.system.whole_files import write_whole

ScanInput: TypeAlias = Any
"""A file; a scene; a trimesh or Open3D geometry; or (points, colours) or (points, colours, faces)."""


def scan_file(scan: Any, folder: Path) -> Path:
    """Return the file of a scan; what is in memory is written as a PLY file into `folder`, named by its content.

    SceneError where it is none of what can be a scan.
    """
    if isinstance(scan, str | os.PathLike):
        return Path(scan)
    scan = _inner(scan)
    if isinstance(scan, Scene) and _is_as_its_file(scan):
        return Path(scan.source or "")
    data = ply(*arrays(scan))
    path = folder / f"{hashlib.sha256(data).hexdigest()[:16]}.ply"
    if not path.is_file():
        write_whole(path, data)
    return path.absolute()


def read_as(scan: Any) -> dict[str, str]:
    """Return the options by which a run reads a scene's file as the scene was read; none of other scans."""
    scan = _inner(scan)
    if not (isinstance(scan, Scene) and _is_as_its_file(scan)):
        return {}
    return dict(zip(("up", "unit"), scan.frame.asked, strict=True))


def _inner(scan: Any) -> Any:
    """Return the scene of what was opened; anything else as it is."""
    inner = getattr(scan, "scene", None)
    return inner if isinstance(inner, Scene) else scan


def arrays(scan: Any) -> tuple[NDArray[Any], NDArray[np.uint8] | None, NDArray[Any] | None]:
    """Return points (n, 3), metres, z up, their colours (n, 3) uint8 or None, and faces (m, 3) or None.

    scan: whatever `ScanInput` allows but a file. SceneError where it is none of that.
    """
    if isinstance(scan, Scene):
        return scan.points, scan.colours, scan.faces
    if isinstance(scan, tuple | list) and len(scan) in (2, 3):
        points, colours, faces = (*scan, None)[:3]
    elif type(scan).__module__.startswith("trimesh"):
        scan_data = _of_trimesh(scan)
        points, colours, faces = scan_data.points, scan_data.colours, scan_data.faces
    elif hasattr(scan, "triangles"):  # a mesh of Open3D
        points, faces, colours = scan.vertices, scan.triangles, scan.vertex_colors
    elif hasattr(scan, "points"):  # its point cloud
        points, faces, colours = scan.points, None, scan.colors
    else:
        raise SceneError(
            f"{type(scan).__name__} is no scan: give a file, a trimesh or Open3D geometry, or arrays"
            " (points, colours) or (points, colours, faces)"
        )
    return np.asarray(points), _colours(colours), None if faces is None else np.asarray(faces)


def ply(
    points: NDArray[Any], colours: NDArray[np.uint8] | None, faces: NDArray[Any] | None
) -> bytes:
    """Return a scan as the bytes of a binary PLY file, its points float64; equal scans, equal bytes.

    SceneError where the arrays are not (n, 3), (n, 3) and (m, 3).
    """
    if points.ndim != 2 or points.shape[1] != 3:
        raise SceneError(f"points must be (n, 3), not {points.shape}")
    if colours is not None and colours.shape != points.shape:
        raise SceneError(f"colours must be (n, 3) as points are, not {colours.shape}")
    if faces is not None and (faces.ndim != 2 or faces.shape[1] != 3):
        raise SceneError(f"faces must be (m, 3), not {faces.shape}")
    return binary_ply(points.astype(np.float64), colours, faces)


def _colours(colours: Any) -> NDArray[np.uint8] | None:
    """Return colours of 0 to 1 or 0 to 255, with or without opacity, as (n, 3) uint8; None for none."""
    values = np.asarray([] if colours is None else colours)
    if not values.size:
        return None
    if values.dtype.kind == "f":
        values = np.round(np.clip(values, 0, 1) * 255)
    shades: NDArray[np.uint8] = values[..., :3].astype(np.uint8)
    return shades


def _of_trimesh(geometry: Any) -> Scan:
    try:
        return scan_of_geometry(geometry)
    except ValueError as error:
        raise SceneError(f"the {type(geometry).__name__} is no scan: {error}") from error


def _is_as_its_file(scene: Scene) -> bool:
    """Whether reading the scene's file gives the scene."""
    source = scene.source
    return source is not None and scene.mirrored_at is None and not is_annotations(source)
