"""Which files are splats, by what is in them and not by their names, and the scan that each holds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from render_agent.errors import SceneError
from render_agent.scene.formats.cleaning import Scan, unreadable
from render_agent.scene.formats.ply import LONGEST_HEADER, read_ascii, read_header
from render_agent.scene.formats.ply_binary import read_binary
from render_agent.scene.formats.registry import FORMATS, ScanKind
from render_agent.scene.formats.splats import ply_splat, rows, spz
from render_agent.scene.formats.splats.ply_splat import PackedAxis

CAMERA_DOWN: PackedAxis = "-y"
"""What points up in splats trained on photographs: their axes are those of the first camera, y down."""

SPZ_UP: PackedAxis = "y"
"""What points up in SPZ, which lays it down: right, up, back."""

SUFFIX = ".splat"

SCAN_SUFFIXES = (
    *(suffix for form in FORMATS for suffix in form.suffixes if suffix not in (".txt", ".csv")),
    *(".compressed.ply", ".spz", SUFFIX),
)
"""How the names of scans end that are looked for by their scene's name; TXT and CSV beside a scan often tell of it."""

ELSEWHERE = {".sog": "SOG", ".ksplat": "KSPLAT"}
"""Formats of splats that no kept library reads, by their suffixes."""


def read_splat(path: Path, size: int) -> tuple[Scan, PackedAxis] | None:
    """Return the splat of a file of `size` bytes and the axis of it that points up; None for other files.

    The points and Gaussians are in the axes of the file; a note says what was assumed of them.
    SceneError where it is a splat that is not whole, or in a format that is not read.
    """
    with path.open("rb") as file:
        start = file.read(LONGEST_HEADER)
    if start.startswith(b"ply"):
        return _from_ply(path, start, size)
    if spz.is_spz(path, start):
        return _noted(spz.read_spz(path, size), SPZ_UP, "as SPZ lays down")
    if path.suffix.lower() in ELSEWHERE:
        name = ELSEWHERE[path.suffix.lower()]
        raise unreadable(
            path,
            f"{name} is not read",
            "convert it to PLY with splat-transform (npm) or SuperSplat",
        )
    if path.suffix.lower() == SUFFIX or (_unknown(path, start) and rows.is_rows(start, size)):
        return _noted(rows.read_rows(path, size), CAMERA_DOWN, "as photographs have it")
    return None


def scan_kind(path: Path) -> ScanKind:
    """Return which kind of scan a file holds, by its PLY header or by its name; of a broken one, mesh."""
    suffix = path.suffix.lower()
    try:
        with path.open("rb") as file:
            start = file.read(LONGEST_HEADER)
        if not start.startswith(b"ply"):
            other: ScanKind = "splat" if suffix in (".spz", SUFFIX) else "mesh"
            return next((form.kind for form in FORMATS if suffix in form.suffixes), other)
        header = read_header(path, start, path.stat().st_size)
    except (SceneError, OSError):
        return "mesh"
    if ply_splat.is_packed(header) or ply_splat.is_original(header):
        return "splat"
    return (
        "mesh" if any(part.name == "face" and part.count for part in header.elements) else "cloud"
    )


def _unknown(path: Path, start: bytes) -> bool:
    """Whether nothing says what a file holds: a format without a header is asked last."""
    if any(form.magic and start.startswith(form.magic) for form in FORMATS):
        return False
    return not any(path.suffix.lower() in form.suffixes for form in FORMATS)


def _from_ply(path: Path, start: bytes, size: int) -> tuple[Scan, PackedAxis] | None:
    header = read_header(path, start, size)
    packed = ply_splat.is_packed(header)
    if not packed and not ply_splat.is_original(header):
        return None
    with path.open("rb") as file:
        file.seek(header.size)
        if packed:
            scan = ply_splat.read_packed(path, file, header)
        elif header.order:
            scan = ply_splat.original_scan(path, read_binary(path, file, header, size)[0])
        else:
            scan = ply_splat.original_scan(path, read_ascii(path, file, header)[0])
    said = ply_splat.up_comment(start)
    if said is not None:
        return scan, said
    return _noted(scan, CAMERA_DOWN, "as photographs have it")


def _noted(scan: Scan, up: PackedAxis, why: str) -> tuple[Scan, PackedAxis]:
    note = f"its axis {up} was taken to point up, {why}, as a splat does not say; --up says another"
    return replace(scan, notes=(*scan.notes, note)), up
