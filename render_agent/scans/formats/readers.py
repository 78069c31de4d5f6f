"""Registry of scan formats: how each is detected and read, and its default up axis and unit.

To add a format, write a reader in its own module and add a line here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from render_agent.extras import require
from render_agent.scans.file_frame import Axis, Unit
from render_agent.scans.formats.cleaning import Scan, ScanKind, require_reader, unreadable
from render_agent.scans.formats.clouds.e57 import read_e57
from render_agent.scans.formats.clouds.las import read_las
from render_agent.scans.formats.clouds.pcd import read_pcd
from render_agent.scans.formats.clouds.text_columns import read_columns
from render_agent.scans.formats.meshes.mesh_file import read_mesh
from render_agent.scans.formats.ply.header import MAX_HEADER_BYTES
from render_agent.scans.formats.ply.reader import ply_kind, read_ply
from render_agent.scans.formats.splats.dot_splat import is_dot_splat, read_dot_splat
from render_agent.scans.formats.splats.spz import MAGIC, is_packed_spz, read_spz
from render_agent.scans.formats.usd.stage import read_usd


@dataclass(frozen=True)
class Format:
    name: str
    suffixes: tuple[str, ...]
    read: Callable[[Path, int], Scan]
    """Reads a file of the given size in bytes; returns the scan with the file's axes and unit."""
    magic: tuple[bytes, ...] = ()
    """First bytes of a file, which take precedence over its suffix; empty if the format has none."""
    up: Axis | None = None
    """Up axis of the format, unless a file specifies another; None if the format has none."""
    unit: Unit | None = None
    """Unit of the format, unless a file specifies another; None if the format has none."""
    needs: tuple[str, ...] = ()  # optional modules that the reader imports
    kind: ScanKind = "mesh"
    packed: Callable[[bytes], bool] = lambda start: False
    """Detects compressed files from their first bytes."""

    def begins(self, start: bytes) -> bool:
        """Return True if a file with these first bytes has this format, whatever its suffix."""
        return start.startswith(self.magic) or self.packed(start)


DOT_SPLAT = Format("SPLAT", (".splat",), read_dot_splat, kind="splat")

# The format is detected from content first, then from the file name suffix.
FORMATS = (
    Format("PLY", (".ply", ".compressed.ply"), read_ply, (b"ply", b"\xef\xbb\xbfply")),
    Format("GLB", (".glb",), read_mesh, (b"glTF",), "y", "m"),
    Format("glTF", (".gltf",), read_mesh, up="y", unit="m"),
    Format("OBJ", (".obj",), read_mesh, up="y"),
    Format("STL", (".stl",), read_mesh),
    Format("OFF", (".off",), read_mesh),
    Format(
        "LAS",
        (".las", ".laz"),
        read_las,
        (b"LASF",),
        "z",
        needs=("laspy", "lazrs"),
        kind="cloud",
    ),
    Format("E57", (".e57",), read_e57, (b"ASTM-E57",), "z", "m", ("pye57",), "cloud"),
    Format("PCD", (".pcd",), read_pcd, kind="cloud"),
    Format(
        "USD",
        (".usd", ".usda", ".usdc"),
        read_usd,
        (b"PXR-USDC", b"#usda"),
        "y",
        "cm",
        needs=("pxr",),
    ),
    Format("USDZ", (".usdz",), read_usd, up="y", unit="cm", needs=("pxr",)),
    Format(
        "XYZ, PTS, TXT, CSV", (".xyz", ".pts", ".txt", ".csv", ".asc"), read_columns, kind="cloud"
    ),
    Format("SPZ", (".spz",), read_spz, (MAGIC,), "y", kind="splat", packed=is_packed_spz),
    DOT_SPLAT,
)

UNSUPPORTED = {".sog": "SOG", ".ksplat": "KSPLAT"}  # splat formats without a maintained library

# First bytes of files that are no scans, whatever their suffix; what they are; and what to do.
OTHER_CONTENT = (
    (
        rb"version https://git-lfs",
        "it is a Git LFS pointer, not the file itself",
        "run git lfs pull",
    ),
    (rb"(\xef\xbb\xbf)?\s*(?i:<!doctype html|<html)", "it is an HTML page", "download it again"),
    (rb"\x1f\x8b\x08", "it is compressed with gzip", "unpack it"),
    (rb"PK\x03\x04", "it is a ZIP archive", "unpack it"),
    (rb"7z\xbc\xaf\x27\x1c|Rar!|BZh|\xfd7zXZ|\x28\xb5\x2f\xfd", "it is an archive", "unpack it"),
)

# Suffixes of files that are found by scene name. TXT and CSV files next to a scan are usually metadata.
SCAN_SUFFIXES = tuple(
    suffix
    for file_format in FORMATS
    for suffix in file_format.suffixes
    if suffix not in (".txt", ".csv")
)


def require_readers(paths: Iterable[Path]) -> None:
    """Raise SetupError if a file's suffix requires a module that is not installed."""
    for suffix in sorted({path.suffix.lower() for path in paths}):
        if (file_format := _format_by_suffix(suffix)) is not None:
            require(file_format.name, *file_format.needs)


def format_of(path: Path, size: int) -> Format:
    """Detect the format of a file of `size` bytes; raise SceneError if it is unknown."""
    with path.open("rb") as file:
        start = file.read(MAX_HEADER_BYTES)
    suffix = path.suffix.lower()
    suffix_format = _format_by_suffix(suffix)
    file_format = next((file_format for file_format in FORMATS if file_format.begins(start)), None)
    if file_format is None and suffix not in (*UNSUPPORTED, ".usdz"):
        for pattern, reason, remedy in OTHER_CONTENT:
            if re.match(pattern, start):
                raise unreadable(path, reason, remedy)
    if file_format is None and suffix_format is not None and not suffix_format.magic:
        file_format = suffix_format
    if file_format is not None:
        require_reader(path, file_format.name, *file_format.needs)
        return file_format
    if suffix in UNSUPPORTED:
        remedy = "convert it to PLY with splat-transform (npm) or SuperSplat"
        raise unreadable(path, f"{UNSUPPORTED[suffix]} is not supported", remedy)
    if suffix_format is not None:
        raise unreadable(path, f"it does not start like a {suffix_format.name} file")
    if is_dot_splat(start, size):  # checked last, because the format has no header
        return DOT_SPLAT
    *names, last = (file_format.name for file_format in FORMATS)
    remedy = f"convert it to {', '.join(names)} or {last}"
    raise unreadable(path, "its format is unknown", remedy)


def scan_kind(path: Path) -> ScanKind:
    """Return the kind of scan in a file from its PLY header or suffix; "mesh" if it is unreadable."""
    try:
        with path.open("rb") as file:
            start = file.read(MAX_HEADER_BYTES)
    except OSError:
        return "mesh"
    if start.startswith(b"ply"):
        return ply_kind(path, start)
    file_format = _format_by_suffix(path.suffix.lower())
    return "mesh" if file_format is None else file_format.kind


def _format_by_suffix(suffix: str) -> Format | None:
    return next((file_format for file_format in FORMATS if suffix in file_format.suffixes), None)
