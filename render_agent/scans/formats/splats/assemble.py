"""The scan of a splat from the arrays of its file, for every format: broken Gaussians dropped, colours computed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.formats.cleaning import FARTHEST_METRES, Scan, unreadable
from render_agent.scans.gaussians import CONSTANT_HARMONIC, Gaussians

MAX_GAUSSIANS = 20_000_000
"""A splat of more is refused."""

WIDEST_METRES = 1e4
"""Metres: a Gaussian that is wider is a fault of the file and is left out, as NaN is."""

BRIGHTEST = 1e4
"""A coefficient of a colour, of which 1 is white, that is larger is a fault of the file."""

COEFFICIENTS = (1, 4, 9, 16)
"""Coefficients of a colour up to the degrees 0, 1, 2 and 3."""


def check_count(path: Path, count: int) -> None:
    """SceneError where a splat has none or too many Gaussians."""
    if not count:
        raise unreadable(path, "it holds no Gaussians")
    if count > MAX_GAUSSIANS:
        raise unreadable(
            path,
            f"it holds {count:,} Gaussians, and at most {MAX_GAUSSIANS:,} can be read",
            "thin it out",
        )


def splat_scan(
    path: Path,
    points: NDArray[Any],
    scales: NDArray[Any],
    rotations: NDArray[Any],
    opacities: NDArray[Any],
    harmonics: NDArray[Any],
    notes: tuple[str, ...] = (),
) -> Scan:
    """Return the scan of Gaussians, those left out that are not finite or have no shape.

    points, scales: (n, 3) in the unit of the file. rotations: (n, 4) quaternions (w, x, y, z) of any
    length. opacities: (n,) from 0 to 1. harmonics: (n, k, 3), k of 1, 4, 9 or 16. SceneError where no
    Gaussian is left.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        lengths = np.linalg.norm(rotations, axis=1)
        good = (np.abs(points) < FARTHEST_METRES).all(axis=1)
        good &= ((scales >= 0) & (scales < WIDEST_METRES)).all(axis=1)
        good &= (lengths > 1e-6) & (lengths < 1e6) & (opacities >= 0) & (opacities <= 1)
        good &= (np.abs(harmonics) < BRIGHTEST).all(axis=(1, 2))
    if not good.any():
        raise unreadable(path, "it holds no Gaussians with finite coordinates")
    parts = points, scales, rotations, opacities, harmonics
    if not good.all():
        parts = tuple(part[good] for part in parts)
        notes = (*notes, f"{int((~good).sum()):,} broken Gaussians were left out")
    at, scale, rotation, opacity, coefficients = (
        np.ascontiguousarray(part, np.float32) for part in parts
    )
    rotation = rotation / np.linalg.norm(rotation, axis=1, keepdims=True)
    gaussians = Gaussians(scale, rotation, opacity, coefficients, np.eye(3))
    return Scan(at, constant_colours(coefficients), gaussians=gaussians, notes=notes)


def constant_colours(harmonics: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return the colours, (n, 3) uint8, of harmonics (n, k, 3) without what depends on the direction."""
    colours = np.clip(0.5 + CONSTANT_HARMONIC * harmonics[:, 0], 0.0, 1.0)
    return np.asarray(np.rint(colours * 255), np.uint8)
