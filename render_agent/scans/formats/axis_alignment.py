"""ScanNet's axis alignment: the transform that makes a scan's walls parallel to the axes."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.formats.cleaning import unreadable

# File names of ScanNet meshes; SCENE.txt next to a mesh contains its alignment.
SCAN_NAME = re.compile(r"(?P<scene>.+)_vh_clean(?:_2)?(?:\.labels)?\.ply")

MAX_FILE_BYTES = 1 << 20  # ScanNet's text files have less than 1 kB
TOLERANCE = 1e-3  # matrices are written with six digits


def missing_note(scan: Path) -> str | None:
    """Return a note if the alignment file of a ScanNet mesh is missing."""
    path = alignment_file(scan)
    if path is None or path.is_file():
        return None
    return (
        "no axis alignment for this ScanNet scan, so the official boxes may not match: put"
        f" {path.name} next to it"
    )


def alignment_file(scan: Path) -> Path | None:
    """Return the path of a ScanNet mesh's alignment file, whether or not it exists; None for other scans."""
    match = SCAN_NAME.fullmatch(scan.name)
    return None if match is None else scan.with_name(match["scene"] + ".txt")


def read_alignment(scan: Path) -> NDArray[np.float64] | None:
    """Return the transform, (4, 4) in metres, from a scan file to its aligned frame; None without ScanNet's file."""
    path = alignment_file(scan)
    if path is None or not path.is_file():
        return None
    with path.open("rb") as file:
        text = file.read(MAX_FILE_BYTES).decode("utf-8", "replace")
    match = re.search(r"^[ \t]*axisAlignment[ \t]*=(.*)$", text, re.MULTILINE)
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
            scan,
            f"the axisAlignment in {path} is not a rotation and translation (16 numbers)",
            "restore the file",
        )
    return matrix
