"""The formats of scans: how a file of each is recognised and read, which way is up in it, and its unit.

A new format is a reader in a file of its own and a line here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from render_agent.extras import require
from render_agent.geometry.file_frame import Axis, Unit
from render_agent.scene.formats.cleaning import Scan, require_reader, triangles, unreadable
from render_agent.scene.formats.clouds.e57 import read_e57
from render_agent.scene.formats.clouds.las import read_las
from render_agent.scene.formats.clouds.pcd import read_pcd
from render_agent.scene.formats.clouds.text_columns import read_columns
from render_agent.scene.formats.meshes import read_mesh
from render_agent.scene.formats.ply import LONGEST_HEADER, read_ascii, read_header, vertex_scan
from render_agent.scene.formats.ply_binary import read_binary
from render_agent.scene.formats.usd import read_usd

ScanKind = Literal["mesh", "cloud", "splat"]


@dataclass(frozen=True)
class Format:
    """A format of scans.

    suffixes: of its files' names. read: gives the scan of a file of so many bytes, in the file's own
    axes and unit. magic: what its files begin with, whatever their names; empty where that says
    nothing. up, unit: what the format has, where it has one; a file that says something else is believed.
    needs: the optional modules that read it. kind: of scan that it mostly holds.
    """

    name: str
    suffixes: tuple[str, ...]
    read: Callable[[Path, int], Scan]
    magic: tuple[bytes, ...] = ()
    up: Axis | None = None
    unit: Unit | None = None
    needs: tuple[str, ...] = ()
    kind: ScanKind = "mesh"


def read_ply(path: Path, size: int) -> Scan:
    """Return the scan of a PLY file of `size` bytes, its axes as in the file."""
    with path.open("rb") as file:
        header = read_header(path, file.read(LONGEST_HEADER), size)
        file.seek(header.size)
        if header.order:
            columns, polygons = read_binary(path, file, header, size)
        else:
            columns, polygons = read_ascii(path, file, header)
    faces = None if polygons is None else triangles(polygons)
    return vertex_scan(path, columns, faces)


FORMATS = (
    Format("PLY", (".ply",), read_ply, magic=(b"ply",)),
    Format("GLB", (".glb",), read_mesh, up="y", unit="m"),
    Format("glTF", (".gltf",), read_mesh, up="y", unit="m"),
    Format("OBJ", (".obj",), read_mesh, up="y"),
    Format("STL", (".stl",), read_mesh),
    Format("OFF", (".off",), read_mesh),
    Format(
        "LAS", (".las", ".laz"), read_las, (b"LASF",), "z", needs=("laspy", "lazrs"), kind="cloud"
    ),
    Format("E57", (".e57",), read_e57, (b"ASTM-E57",), "z", "m", needs=("pye57",), kind="cloud"),
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
)
"""All formats; what a file begins with counts before what its name ends in."""

LONGEST_MAGIC = max(len(magic) for form in FORMATS for magic in form.magic)


def require_readers(paths: Iterable[Path]) -> None:
    """Raise SetupError where the name of a file says that it needs a module that is not installed."""
    for suffix in sorted({path.suffix.lower() for path in paths}):
        for form in FORMATS:
            if suffix in form.suffixes:
                require(form.name, *form.needs)


def format_of(path: Path) -> Format:
    """Return the format that a file is in. SceneError where it is none of them."""
    with path.open("rb") as file:
        start = file.read(LONGEST_MAGIC)
    suffix = path.suffix.lower()
    begun = [form for form in FORMATS if form.magic and start.startswith(form.magic)]
    called = [form for form in FORMATS if suffix in form.suffixes and not form.magic]
    for form in begun + called:
        require_reader(path, form.name, *form.needs)
        return form
    named = next((form for form in FORMATS if suffix in form.suffixes), None)
    if named is not None:
        raise unreadable(path, f"it does not begin as {named.name} files do")
    names = [form.name for form in FORMATS]
    raise unreadable(
        path,
        "it is in no format that is known here",
        f"use {', '.join(names[:-1])} or {names[-1]}",
    )
