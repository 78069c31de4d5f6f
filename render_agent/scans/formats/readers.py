"""The formats of scans: how a file of each is recognised and read, which way is up in it, and its unit.

A new format is a reader in a file of its own and a line here.
"""

from __future__ import annotations

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
from render_agent.scans.formats.meshes import read_mesh
from render_agent.scans.formats.ply.header import LONGEST_HEADER
from render_agent.scans.formats.ply.reader import ply_kind, read_ply
from render_agent.scans.formats.splats.dot_splat import is_dot_splat, read_dot_splat
from render_agent.scans.formats.splats.spz import MAGIC, is_packed_spz, read_spz
from render_agent.scans.formats.usd import read_usd


@dataclass(frozen=True)
class Format:
    """A format of scans.

    suffixes: of its files' names. read: gives the scan of a file of so many bytes, in the file's own
    axes and unit. magic: what its files begin with, whatever their names; empty where that says
    nothing. up, unit: what the format has, where it has one; a file that says something else is believed.
    needs: the optional modules that read it. kind: of scan that it mostly holds. packed: tells by a file's
    first bytes whether these are the magic behind a compression.
    """

    name: str
    suffixes: tuple[str, ...]
    read: Callable[[Path, int], Scan]
    magic: tuple[bytes, ...] = ()
    up: Axis | None = None
    unit: Unit | None = None
    needs: tuple[str, ...] = ()
    kind: ScanKind = "mesh"
    packed: Callable[[bytes], bool] = lambda start: False

    def begins(self, start: bytes) -> bool:
        """Whether a file that begins so is of this format, whatever its name."""
        return start.startswith(self.magic) or self.packed(start)


DOT_SPLAT = Format("SPLAT", (".splat",), read_dot_splat, kind="splat")

FORMATS = (
    Format("PLY", (".ply", ".compressed.ply"), read_ply, (b"ply",)),
    Format("GLB", (".glb",), read_mesh, up="y", unit="m"),
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
"""All formats; what a file begins with counts before what its name ends in."""

NOT_READ = {".sog": "SOG", ".ksplat": "KSPLAT"}
"""Formats of splats that no kept library reads, by their suffixes."""

SCAN_SUFFIXES = tuple(
    suffix for form in FORMATS for suffix in form.suffixes if suffix not in (".txt", ".csv")
)
"""How the names of scans end that are looked for by their scene's name; TXT and CSV beside a scan often tell of it."""


def require_readers(paths: Iterable[Path]) -> None:
    """Raise SetupError where the name of a file says that it needs a module that is not installed."""
    for suffix in sorted({path.suffix.lower() for path in paths}):
        if (form := _called(suffix)) is not None:
            require(form.name, *form.needs)


def format_of(path: Path, size: int) -> Format:
    """Return the format that a file of `size` bytes is in. SceneError where it is none of them."""
    with path.open("rb") as file:
        start = file.read(LONGEST_HEADER)
    suffix = path.suffix.lower()
    called = _called(suffix)
    form = next((form for form in FORMATS if form.begins(start)), None)
    if form is None and called is not None and not called.magic:
        form = called
    if form is not None:
        require_reader(path, form.name, *form.needs)
        return form
    if suffix in NOT_READ:
        remedy = "convert it to PLY with splat-transform (npm) or SuperSplat"
        raise unreadable(path, f"{NOT_READ[suffix]} is not read", remedy)
    if called is not None:
        raise unreadable(path, f"it does not begin as {called.name} files do")
    if is_dot_splat(start, size):  # it has no header: asked last
        return DOT_SPLAT
    *names, last = (form.name for form in FORMATS)
    remedy = f"use {', '.join(names)} or {last}"
    raise unreadable(path, "it is in no format that is known here", remedy)


def scan_kind(path: Path) -> ScanKind:
    """Return which kind of scan a file holds, by its PLY header or by its name; of a broken one, mesh."""
    try:
        with path.open("rb") as file:
            start = file.read(LONGEST_HEADER)
    except OSError:
        return "mesh"
    if start.startswith(b"ply"):
        return ply_kind(path, start)
    form = _called(path.suffix.lower())
    return "mesh" if form is None else form.kind


def _called(suffix: str) -> Format | None:
    """Return the format whose files' names end so."""
    return next((form for form in FORMATS if suffix in form.suffixes), None)
