"""Read `.splat` files, antimatter15's format: 32 bytes per Gaussian and no header."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.formats.cleaning import MAX_COORDINATE_METRES, Scan, unreadable
from render_agent.scans.formats.splats.assemble import MAX_GAUSSIAN_METRES, check_count, splat_scan
from render_agent.scans.gaussians import CONSTANT_HARMONIC

# Position, standard deviations, RGB with opacity, and quaternion (w, x, y, z) of a Gaussian.
ROW = np.dtype(
    [("point", "<f4", 3), ("scale", "<f4", 3), ("colour", "u1", 4), ("rotation", "u1", 4)]
)
MAX_SAMPLED_ROWS = 4096  # rows inspected to detect the format, which has no header
MIN_VALID_SHARE = 0.95  # share of them that must be valid: positive sizes, nearly unit quaternions


def is_dot_splat(start: bytes, size: int) -> bool:
    """Return True if a file of `size` bytes with these first bytes looks like rows of Gaussians."""
    if not size or size % ROW.itemsize:
        return False
    rows = np.frombuffer(start, ROW, min(len(start) // ROW.itemsize, MAX_SAMPLED_ROWS))
    return bool(len(rows)) and float(np.mean(_is_valid(rows))) >= MIN_VALID_SHARE


def _is_valid(rows: NDArray[np.void]) -> NDArray[np.bool_]:
    with np.errstate(invalid="ignore", over="ignore"):
        is_valid = (np.abs(rows["point"]) < MAX_COORDINATE_METRES).all(axis=1)
        is_valid &= ((rows["scale"] > 0) & (rows["scale"] < MAX_GAUSSIAN_METRES)).all(axis=1)
    lengths = np.linalg.norm(_quaternions(rows), axis=1)
    is_valid &= np.abs(lengths - 1) < 0.05
    return np.asarray(is_valid)


def _quaternions(rows: NDArray[np.void]) -> NDArray[np.float32]:
    return np.asarray((rows["rotation"].astype(np.float32) - 128) / 128, np.float32)


def read_dot_splat(path: Path, size: int) -> Scan:
    """Read a `.splat` file of `size` bytes; raise SceneError if it is damaged."""
    if size % ROW.itemsize:
        raise unreadable(path, f"its size, {size:,} bytes, is not a multiple of {ROW.itemsize}")
    check_count(path, size // ROW.itemsize)
    rows = np.fromfile(path, ROW)
    colours = rows["colour"].astype(np.float32) / 255
    return splat_scan(
        path,
        rows["point"],
        rows["scale"],
        _quaternions(rows),
        colours[:, 3],
        ((colours[:, :3] - 0.5) / CONSTANT_HARMONIC)[:, None],
    )
