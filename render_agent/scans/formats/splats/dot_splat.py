"""The `.splat` format: 32 bytes a Gaussian and nothing else, as antimatter15's viewer reads it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.formats.cleaning import FARTHEST_METRES, Scan, unreadable
from render_agent.scans.formats.splats.assemble import WIDEST_METRES, check_count, splat_scan
from render_agent.scans.gaussians import CONSTANT_HARMONIC

ROW = np.dtype(
    [("point", "<f4", 3), ("scale", "<f4", 3), ("colour", "u1", 4), ("rotation", "u1", 4)]
)
"""A Gaussian: its place, its standard deviations, RGB and opacity, and a quaternion (w, x, y, z)."""

MOST_LOOKED_AT = 4096
"""Rows by which the format, which has no header, is recognised."""

SOUND_SHARE = 0.95
"""Of these so many must be Gaussians: sizes above 0, quaternions of unit length but for rounding."""


def is_dot_splat(start: bytes, size: int) -> bool:
    """Whether a file of `size` bytes that begins so has rows of Gaussians and nothing else."""
    if not size or size % ROW.itemsize:
        return False
    rows = np.frombuffer(start, ROW, min(len(start) // ROW.itemsize, MOST_LOOKED_AT))
    return bool(len(rows)) and float(np.mean(_sound(rows))) >= SOUND_SHARE


def _sound(rows: NDArray[np.void]) -> NDArray[np.bool_]:
    with np.errstate(invalid="ignore", over="ignore"):
        sound = (np.abs(rows["point"]) < FARTHEST_METRES).all(axis=1)
        sound &= ((rows["scale"] > 0) & (rows["scale"] < WIDEST_METRES)).all(axis=1)
    lengths = np.linalg.norm(_quaternions(rows), axis=1)
    sound &= np.abs(lengths - 1) < 0.05
    return np.asarray(sound)


def _quaternions(rows: NDArray[np.void]) -> NDArray[np.float32]:
    return np.asarray((rows["rotation"].astype(np.float32) - 128) / 128, np.float32)


def read_dot_splat(path: Path, size: int) -> Scan:
    """Return the splat of a `.splat` file of `size` bytes. SceneError where it is not whole."""
    if size % ROW.itemsize:
        raise unreadable(path, f"its {size:,} bytes are no whole rows of {ROW.itemsize}")
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
