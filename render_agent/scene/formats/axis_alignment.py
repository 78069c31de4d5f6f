"""ScanNet's axis alignment: the turn that makes a scan's walls parallel to the axes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from render_agent.scene.formats.cleaning import unreadable

SCAN_NAME = re.compile(r"(?P<scene>.+)_vh_clean(?:_2)?(?:\.labels)?\.ply")
"""What ScanNet calls its meshes; SCENE.txt beside one holds its alignment."""

SCENE_NAME = re.compile(r"scene\d{4}_\d{2}")
SPLAT_NAME = re.compile(
    r"point_cloud(?:_\d+)?\.ply|(?P<scene>scene\d{4}_\d{2})\.(?:compressed\.ply|spz|splat)"
)
"""What splats of ScanNet are called: by their scene, or by nothing but a folder above them that is."""

MAX_FOLDERS_ABOVE = 4
"""So many folders above a splat may have its scene's name."""

MAX_FILE_BYTES = 1 << 20
"""Bytes: ScanNet's text files have less than a thousand."""

TOLERANCE = 1e-3
"""The alignment is written with six digits."""


def splat_scene(scan: Path) -> str | None:
    """Return the scene of ScanNet that a file is a splat of, by its name and place; None for others."""
    match = SPLAT_NAME.fullmatch(scan.name)
    if match is None or match["scene"]:
        return match and match["scene"]
    above = [folder.name for folder in list(scan.parents)[:MAX_FOLDERS_ABOVE]]
    return next((name for name in above if SCENE_NAME.fullmatch(name)), None)


def missing_note(scan: Path, folders: Sequence[str] = ()) -> str | None:
    """Return a sentence where a scan of ScanNet lies without the file of its alignment; folders: see below."""
    path = alignment_file(scan, folders)
    if path is None or path.is_file():
        return None
    return (
        f"the alignment of this scan of ScanNet is missing, so that it may stand turned to the official"
        f" boxes: put {path.name} beside it"
    )


def alignment_file(scan: Path, folders: Sequence[str] = ()) -> Path | None:
    """Return the file that holds the alignment of a mesh or splat of ScanNet; None for others.

    It lies beside a mesh, there or not. That of a splat lies beside it, in the folder of its scene, or
    in one of the folders of ScanNet's own scans.
    """
    match = SCAN_NAME.fullmatch(scan.name)
    if match:
        return scan.with_name(match["scene"] + ".txt")
    scene = splat_scene(scan)
    if scene is None:
        return None
    named = [folder for folder in list(scan.parents)[:MAX_FOLDERS_ABOVE] if folder.name == scene]
    scans = [Path(folder, *parts, scene) for folder in folders for parts in (("scans",), ())]
    files = [folder / f"{scene}.txt" for folder in (scan.parent, *named, *scans)]
    return next((file for file in files if file.is_file()), files[0])


def read_alignment(scan: Path, folders: Sequence[str] = ()) -> NDArray[np.float64] | None:
    """Return the matrix, (4, 4), that takes the scan of the file `scan` to its aligned frame, metres.

    folders: as in `alignment_file`. None where there is none: the scan is not of ScanNet, its text file
    is not there, or names no axisAlignment. SceneError where that is there but is no turn and shift.
    """
    path = alignment_file(scan, folders)
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
