"""Build the scan of a splat from its arrays, for every file format: drop broken Gaussians and compute colours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.formats.cleaning import MAX_COORDINATE_METRES, Scan, unreadable
from render_agent.scans.formats.declared_size import check_memory
from render_agent.scans.gaussians import CONSTANT_HARMONIC, Gaussians

MAX_GAUSSIANS = 20_000_000  # larger splats are rejected
MAX_GAUSSIAN_METRES = 1e4  # wider Gaussians are faulty, like NaN, and are dropped
MAX_COEFFICIENT = 1e4  # larger colour coefficients are faulty; white is 1
COEFFICIENTS = (1, 4, 9, 16)  # coefficients per colour channel for degrees 0 to 3


# Peak memory of loading a splat, per Gaussian and per coefficient of a colour channel, as measured.
BYTES_PER_GAUSSIAN, BYTES_PER_COEFFICIENT = 325, 23


def check_count(
    path: Path,
    count: int,
    coefficients: int = 1,  # coefficients per colour channel, at least
) -> None:
    """Raise SceneError if a splat has no Gaussians, too many, or more than fit into half of the free memory."""
    if not count:
        raise unreadable(path, "it has no Gaussians")
    if count > MAX_GAUSSIANS:
        raise unreadable(
            path,
            f"it has {count:,} Gaussians, more than the supported {MAX_GAUSSIANS:,}",
            "reduce their number",
        )
    num_bytes = count * (BYTES_PER_GAUSSIAN + BYTES_PER_COEFFICIENT * coefficients)
    check_memory(path, num_bytes, f"{count:,} Gaussians")


def splat_scan(
    path: Path,
    points: NDArray[Any],  # (n, 3) in the unit of the file
    scales: NDArray[Any],  # (n, 3) standard deviations in the unit of the file
    rotations: NDArray[Any],  # (n, 4) quaternions (w, x, y, z) of any length
    opacities: NDArray[Any],  # (n,) from 0 to 1
    harmonics: NDArray[Any],  # (n, k, 3) with k = 1, 4, 9 or 16
    notes: tuple[str, ...] = (),
) -> Scan:
    """Build a scan from Gaussians; those with invalid values are dropped, which adds a note."""
    with np.errstate(invalid="ignore", over="ignore"):
        lengths = np.linalg.norm(rotations, axis=1)
        is_valid = (np.abs(points) < MAX_COORDINATE_METRES).all(axis=1)
        is_valid &= ((scales >= 0) & (scales < MAX_GAUSSIAN_METRES)).all(axis=1)
        is_valid &= (lengths > 1e-6) & (lengths < 1e6) & (opacities >= 0) & (opacities <= 1)
        is_valid &= (np.abs(harmonics) < MAX_COEFFICIENT).all(axis=(1, 2))
    if not is_valid.any():
        raise unreadable(path, "it has no Gaussians with finite coordinates")
    parts = points, scales, rotations, opacities, harmonics
    if not is_valid.all():
        parts = tuple(part[is_valid] for part in parts)
        notes = (*notes, f"{int((~is_valid).sum()):,} invalid Gaussians were dropped")
    at, scale, rotation, opacity, coefficients = (
        np.ascontiguousarray(part, np.float32) for part in parts
    )
    rotation = rotation / np.linalg.norm(rotation, axis=1, keepdims=True)
    gaussians = Gaussians(scale, rotation, opacity, coefficients, np.eye(3))
    return Scan(at, constant_colours(coefficients), gaussians=gaussians, notes=notes)


def constant_colours(harmonics: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return colours, (n, 3) uint8, from the constant coefficient of harmonics, (n, k, 3)."""
    colours = np.clip(0.5 + CONSTANT_HARMONIC * harmonics[:, 0], 0.0, 1.0)
    return np.asarray(np.rint(colours * 255), np.uint8)
