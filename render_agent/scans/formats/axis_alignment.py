"""ScanNet's axis alignment: the turn that makes a scan's walls parallel to the axes."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.formats.cleaning import unreadable

SCAN_NAME = re.compile(r"(?P<scene>.+)_vh_clean(?:_2)?(?:\.labels)?\.ply")
"""What ScanNet calls its meshes; SCENE.txt beside one holds its alignment."""

MAX_FILE_BYTES = 1 << 20
"""Bytes: ScanNet's text files have less than a thousand."""

TOLERANCE = 1e-3
"""The alignment is written with six digits."""


def missing_note(scan: Path) -> str | None:
    """Return a sentence if a mesh of ScanNet lacks the file of its alignment."""
    path = alignment_file(scan)
    if path is None or path.is_file():
        return None
    return (
        f"the alignment of this scan of ScanNet is missing, so that it may stand turned to the official"
        f" boxes: put {path.name} beside it"
    )


def alignment_file(scan: Path) -> Path | None:
    """Return the file beside a mesh of ScanNet that holds its alignment, there or not; None for others."""
    match = SCAN_NAME.fullmatch(scan.name)
    return None if match is None else scan.with_name(match["scene"] + ".txt")


def read_alignment(scan: Path) -> NDArray[np.float64] | None:
    """Return the matrix, (4, 4), that takes the scan of the file `scan` to its aligned frame, metres.

    None if there is none: the scan is not of ScanNet, its text file is missing, or names no axisAlignment. SceneError where that is there but is no turn and shift.
    """
    path = alignment_file(scan)
    if path is None or not path.is_file():
        return None
    with path.open("rb") as file:
        text = file.read(MAX_FILE_BYTES).decode("utf-8", "replace")
    match = re.search(r"^\s*axisAlignment\s*=(.*)$", text, re.MULTILINE)
    if match is None:
        return None
    try:
        matrix = np.array([float(word) for word in match[1].split()]).reshape(4, 4)
    except ValueError:
        matrix = np.zeros((4, 4))
    turn = matrix[:3, :3]
    if not (
        np.isfinite(matrix).all()
        and np.abs(turn).max() <= 1 + TOLERANCE  # larger numbers overflow in the product
        and np.abs(turn @ turn.T - np.eye(3)).max() < TOLERANCE
        and np.linalg.det(turn) > 0
        and np.array_equal(matrix[3], (0, 0, 0, 1))
    ):
        raise unreadable(
            scan, f"the axisAlignment in {path} is no turn and shift of 16 numbers", "restore it"
        )
    return matrix
