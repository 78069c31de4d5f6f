"""A scan as its file gives it, its polygons cut into triangles, and how it is cleaned before it becomes a scene."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from render_agent.errors import SceneError, SetupError
from render_agent.extras import require
from render_agent.scans.file_frame import UPRIGHT, Axis
from render_agent.scans.gaussians import Gaussians
from render_agent.scans.texture import Texture

FARTHEST_METRES = 1e8
"""A coordinate beyond this, in metres, is a fault of the scanner, as NaN is."""

NEAR_ENOUGH_METRES = 1000.0
"""Within this distance from zero, in metres, float32 keeps coordinates to a tenth of a millimetre."""


def unreadable(path: Path, why: str, remedy: str = "copy or export it again") -> SceneError:
    """Return the error of a scan: what is wrong with which file, and what to do about it."""
    return SceneError(f"the scan {path} cannot be read: {why}; {remedy}")


def require_reader(path: Path, name: str, *modules: str, remedy: str = "") -> None:
    """Raise SceneError where a module that reads such a scan is not installed; remedy: what else helps."""
    try:
        require(name, *modules)
    except SetupError as error:
        raise SceneError(f"the scan {path} cannot be read: {error}{remedy}") from None


ScanKind = Literal["mesh", "cloud", "splat"]


@dataclass(frozen=True, eq=False)
class Scan:
    """What a scan's file holds.

    points: (n, 3) float32 or float64, metres, possibly not finite. colours: (n, 3) uint8 or None.
    faces: (m, 3) integers, or None for a point cloud. origin: metres, taken off all points. texture,
    gaussians, notes: as in a Scene. up: the axis that points up, metres: the length of the unit of its
    points, each where the file itself says so.
    """

    points: NDArray[Any]
    colours: NDArray[np.uint8] | None = None
    faces: NDArray[Any] | None = None
    origin: tuple[float, float, float] = (0.0, 0.0, 0.0)
    texture: Texture | None = None
    gaussians: Gaussians | None = None
    notes: tuple[str, ...] = ()
    up: Axis | None = None
    metres: float | None = None


def upright_turn(up: Axis) -> NDArray[np.float64]:
    """Return the turn, (3, 3), after which a scan whose axis `up` points up has z up.

    >>> upright_turn("y") @ [1.0, 2.0, 3.0]
    array([ 1., -3.,  2.])
    """
    turn = np.zeros((3, 3))
    for row, axis in enumerate(UPRIGHT[up]):
        turn[row, "xyz".index(axis[-1])] = -1.0 if axis[0] == "-" else 1.0
    return turn


def transformed(
    scan: Scan,
    turn: NDArray[np.float64] | None = None,
    scale: float = 1.0,
    shift: NDArray[np.float64] | None = None,
) -> Scan:
    """Return the scan turned, then scaled, then shifted, with all that has a direction or a size.

    turn: (3, 3), a rotation. scale: greater than 0. shift: (3,) metres. Points become float64 where
    they may need it; a turn that only swaps axes keeps them to the bit.
    """
    points, gaussians = scan.points, scan.gaussians
    # Vertices that are not finite are dropped later.
    with np.errstate(invalid="ignore", over="ignore"):
        if turn is not None and not np.array_equal(turn, np.eye(3)):
            swaps = bool(np.isin(turn, (-1.0, 0.0, 1.0)).all())
            points = _axes_swapped(points, turn) if swaps else points.astype(np.float64) @ turn.T
            gaussians = None if gaussians is None else gaussians.turned(turn)
        if scale != 1.0:
            points = points.astype(np.float64) * scale
            gaussians = None if gaussians is None else gaussians.scaled(scale)
        if shift is not None and np.any(shift):
            points = points.astype(np.float64) + shift
    return replace(scan, points=points, gaussians=gaussians)


def _axes_swapped(points: NDArray[Any], turn: NDArray[np.float64]) -> NDArray[Any]:
    """Return points turned by a matrix of which each row has one entry, 1 or -1."""
    sources = np.abs(turn).argmax(axis=1)
    signs = turn[np.arange(3), sources].astype(points.dtype)
    turned: NDArray[Any] = points[:, sources] * signs
    return turned


def cleaned(scan: Scan, path: Path) -> Scan:
    """Return the scan with float32 points near zero and int32 faces, all finite, all in range.

    Vertices that are not finite are dropped, and the faces that use them, which a note says. SceneError where a face
    uses a vertex that is not there, or where nothing with an extent is left.
    """
    count = len(scan.points)
    if scan.faces is not None and len(scan.faces):
        lowest, highest = int(scan.faces.min()), int(scan.faces.max())
        if lowest < 0 or highest >= count:
            wrong = lowest if lowest < 0 else highest
            raise unreadable(path, f"a face uses vertex {wrong}, but it has {count:,} vertices")
    with np.errstate(invalid="ignore"):
        good = (np.abs(scan.points) < FARTHEST_METRES).all(axis=1)
    if not good.all():
        scan = _without(scan, ~good)
        note = f"{count - good.sum():,} of its {count:,} points have no place and are left out"
        scan = replace(scan, notes=(*scan.notes, note))
    if not len(scan.points) or (scan.faces is not None and not len(scan.faces)):
        raise unreadable(path, "it holds no surface with finite coordinates")
    return _near_zero(scan, path)


def _without(scan: Scan, bad: NDArray[np.bool_]) -> Scan:
    """Return the scan without the vertices marked `bad`, (n,) bool, and without their faces."""
    good = ~bad
    faces, texture, gaussians = scan.faces, scan.texture, scan.gaussians
    if faces is not None:
        kept = good[faces].all(axis=1)
        faces = (np.cumsum(good) - 1)[faces[kept]]
        texture = None if texture is None else texture.kept(good, kept)
    colours = None if scan.colours is None else scan.colours[good]
    gaussians = None if gaussians is None else gaussians.where(good)
    return replace(
        scan,
        points=scan.points[good],
        colours=colours,
        faces=faces,
        texture=texture,
        gaussians=gaussians,
    )


def _near_zero(scan: Scan, path: Path) -> Scan:
    """Return the scan in float32, moved by whole metres where it lies far from zero."""
    points = scan.points
    used = (
        points if scan.faces is None else points[scan.faces[:: max(1, len(scan.faces) // 65536), 0]]
    )
    middle = np.median(used[:: max(1, len(used) // 65536)].astype(np.float64), axis=0)
    far = bool((np.abs(middle) > NEAR_ENOUGH_METRES).any())
    origin = np.round(middle) if far else np.zeros(3)
    moved = (points - origin if far else points).astype(np.float32, copy=False)
    if float(np.ptp(moved, axis=0).max()) < 1e-3:
        raise unreadable(path, "all its points lie in one place", "export it in metres")
    faces = None if scan.faces is None else np.ascontiguousarray(scan.faces, dtype=np.int32)
    x, y, z = (float(value) for value in origin)
    return replace(scan, points=np.ascontiguousarray(moved), faces=faces, origin=(x, y, z))


Polygons = dict[int, NDArray[Any]]
"""Faces by their number of corners k: (n, k) vertex indices each."""


def triangles(polygons: Polygons) -> NDArray[Any]:
    """Return polygons as triangles, (m, 3) vertex indices: each is cut as a fan from its first corner.

    Polygons of fewer than three corners have no surface and are left out.
    """
    parts = [np.empty((0, 3), np.int32)]
    for corners, faces in sorted(polygons.items()):
        if corners == 3:
            parts.append(faces)
        elif corners > 3:
            fan = [(0, corner, corner + 1) for corner in range(1, corners - 1)]
            parts.append(faces[:, np.array(fan)].reshape(-1, 3))
    solid = [part for part in parts if len(part)]
    return solid[0] if len(solid) == 1 else np.concatenate(solid or parts)
