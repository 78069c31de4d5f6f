"""The content of a scan file, and the steps that clean it before it becomes a scene."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from render_agent.errors import SceneError, SetupError
from render_agent.extras import require
from render_agent.scans.file_frame import UPRIGHT, Axis
from render_agent.scans.gaussians import Gaussians
from render_agent.scans.texture import Texture

MAX_COORDINATE_METRES = 1e8  # coordinates beyond this are scanner faults, like NaN
PRECISE_METRES = 1000.0  # float32 resolves coordinates up to this distance to 0.1 mm


def unreadable(path: Path, why: str, remedy: str = "copy or export it again") -> SceneError:
    """Return the error for an unreadable scan: the file, the reason and the remedy."""
    return SceneError(f"the scan {path} cannot be read: {why}; {remedy}")


def require_reader(path: Path, name: str, *modules: str, remedy: str = "") -> None:
    """Raise SceneError if a module needed by a format is not installed; `remedy` adds an alternative."""
    try:
        require(name, *modules)
    except SetupError as error:
        raise SceneError(f"the scan {path} cannot be read: {error}{remedy}") from None


ScanKind = Literal["mesh", "cloud", "splat"]


@dataclass(frozen=True, eq=False)
class Scan:
    points: NDArray[Any]  # (n, 3) float32 or float64, metres, possibly with NaN or infinity
    colours: NDArray[np.uint8] | None = None  # (n, 3) uint8 sRGB, or None
    faces: NDArray[Any] | None = None  # (m, 3) integer vertex indices; None for a point cloud
    origin: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Offset in metres that was subtracted from all points."""
    texture: Texture | None = None
    gaussians: Gaussians | None = None
    notes: tuple[str, ...] = ()
    up: Axis | None = None  # up axis, if the file specifies it
    metres: float | None = None  # length of the file's unit in metres, if the file specifies it
    files: dict[str, int | None] = field(default_factory=dict)
    """Path -> time of the last change (ns) of the other files that were opened; None for files that do not exist."""


def upright_turn(up: Axis) -> NDArray[np.float64]:
    """Return the rotation, (3, 3), that makes axis `up` of a scan point along z.

    >>> upright_turn("y") @ [1.0, 2.0, 3.0]
    array([ 1., -3.,  2.])
    """
    turn = np.zeros((3, 3))
    for row, axis in enumerate(UPRIGHT[up]):
        turn[row, "xyz".index(axis[-1])] = -1.0 if axis[0] == "-" else 1.0
    return turn


def transform_scan(
    scan: Scan,
    # rotation, (3, 3). Rotations that only permute axes are exact.
    turn: NDArray[np.float64] | None = None,
    scale: float = 1.0,
    shift: NDArray[np.float64] | None = None,  # (3,) metres
) -> Scan:
    """Rotate, then scale, then shift a scan, including everything with a direction or size."""
    points, gaussians = scan.points, scan.gaussians
    # Non-finite vertices are dropped later.
    with np.errstate(invalid="ignore", over="ignore"):
        if turn is not None and not np.array_equal(turn, np.eye(3)):
            permutes = bool(np.isin(turn, (-1.0, 0.0, 1.0)).all())
            points = _permute_axes(points, turn) if permutes else points.astype(np.float64) @ turn.T
            gaussians = None if gaussians is None else gaussians.turned(turn)
        if scale != 1.0:
            points = points.astype(np.float64) * scale
            gaussians = None if gaussians is None else gaussians.scaled(scale)
        if shift is not None and np.any(shift):
            points = points.astype(np.float64) + shift
    return replace(scan, points=points, gaussians=gaussians)


def _permute_axes(points: NDArray[Any], turn: NDArray[np.float64]) -> NDArray[Any]:
    """Apply a rotation whose rows each have a single entry, 1 or -1."""
    sources = np.abs(turn).argmax(axis=1)
    signs = turn[np.arange(3), sources].astype(points.dtype)
    result: NDArray[Any] = points[:, sources] * signs
    return result


def clean_scan(scan: Scan, path: Path) -> Scan:
    """Return the scan with valid faces and float32 points near zero, and a note about vertices that were not finite."""
    count = len(scan.points)
    if scan.faces is not None:
        check_corners(path, scan.faces, count)
    with np.errstate(invalid="ignore"):
        is_valid = (np.abs(scan.points) < MAX_COORDINATE_METRES).all(axis=1)
    if not is_valid.all():
        scan = _drop_vertices(scan, ~is_valid)
        notes = invalid_note(count - int(is_valid.sum()), count)
        scan = replace(scan, notes=(*scan.notes, *notes))
    if not len(scan.points) or (scan.faces is not None and not len(scan.faces)):
        raise unreadable(path, "it has no surface with finite coordinates")
    return _shift_near_zero(scan, path)


def invalid_note(num_bad: int, count: int) -> tuple[str, ...]:
    """Return the note about `num_bad` dropped ones of `count` points; no note for none."""
    if not num_bad:
        return ()
    return (f"{num_bad:,} of {count:,} points have invalid coordinates and were dropped",)


def check_corners(
    path: Path,
    faces: NDArray[Any],
    count: int,
    first: int = 0,  # the index of the first vertex in the file, for the message
) -> None:
    """Raise SceneError if faces, of any shape, refer to vertices that do not exist."""
    if faces.size:
        lowest, highest = int(faces.min()), int(faces.max())
        if lowest < 0 or highest >= count:
            index = lowest if lowest < 0 else highest
            raise unreadable(
                path, f"a face refers to vertex {index + first}, but there are {count:,} vertices"
            )


def _drop_vertices(scan: Scan, is_bad: NDArray[np.bool_]) -> Scan:
    """Return the scan without the marked vertices, (n,) bool, and without their faces."""
    keep = ~is_bad
    faces, texture, gaussians = scan.faces, scan.texture, scan.gaussians
    if faces is not None:
        good_faces = keep[faces].all(axis=1)
        faces = (np.cumsum(keep) - 1)[faces[good_faces]]
        texture = None if texture is None else texture.kept(keep, good_faces)
    colours = None if scan.colours is None else scan.colours[keep]
    gaussians = None if gaussians is None else gaussians.where(keep)
    return replace(
        scan,
        points=scan.points[keep],
        colours=colours,
        faces=faces,
        texture=texture,
        gaussians=gaussians,
    )


def _shift_near_zero(scan: Scan, path: Path) -> Scan:
    """Return the scan in float32, shifted by whole metres if it is far from zero."""
    points = scan.points
    used_points = (
        points if scan.faces is None else points[scan.faces[:: max(1, len(scan.faces) // 65536), 0]]
    )
    middle = np.median(used_points[:: max(1, len(used_points) // 65536)].astype(np.float64), axis=0)
    is_far = bool((np.abs(middle) > PRECISE_METRES).any())
    origin = np.round(middle) if is_far else np.zeros(3)
    near_points = (points - origin if is_far else points).astype(np.float32, copy=False)
    if float(np.ptp(near_points, axis=0).max()) < 1e-3:
        raise unreadable(path, "all its points coincide", "export it in metres")
    faces = None if scan.faces is None else np.ascontiguousarray(scan.faces, dtype=np.int32)
    x, y, z = (float(value) for value in origin)
    return replace(scan, points=np.ascontiguousarray(near_points), faces=faces, origin=(x, y, z))
