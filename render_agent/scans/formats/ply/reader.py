"""Read a PLY file as a mesh, a cloud, or a splat in one of two layouts."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from render_agent.errors import SceneError
from render_agent.scans.formats.cleaning import Scan, ScanKind, unreadable
from render_agent.scans.formats.declared import Declared, unit_of_comments, up_of_comments
from render_agent.scans.formats.ply.ascii import read_ascii
from render_agent.scans.formats.ply.binary import read_binary
from render_agent.scans.formats.ply.header import MAX_HEADER_BYTES, STRIPS, Header, read_header
from render_agent.scans.formats.ply.surface import TEXTURE_COMMENT, add_surface
from render_agent.scans.formats.ply.vertices import vertex_scan
from render_agent.scans.formats.reading_process import (
    NeedsChildProcess,
    ScanRejectedError,
    read_in_child,
)
from render_agent.scans.formats.splats import ply_splat

# Comments with a meaning that is not read.
OTHER_COMMENT = r"(SplatRenderMode:\s*(?!default).+)"


def read_ply(path: Path, size: int, *, in_child: bool = False) -> Scan:
    """Read a PLY file of `size` bytes, with the file's axes; raise SceneError if it is damaged."""
    with suppress(NeedsChildProcess):
        return _read(path, size, in_child=in_child)
    return read_in_child(read_ply, path, size, "in_child")


def _read(path: Path, size: int, *, in_child: bool) -> Scan:
    with path.open("rb") as file:
        header = read_header(path, file.read(MAX_HEADER_BYTES), size)
        file.seek(header.size)
        declared = _declarations(header)
        if ply_splat.is_packed(header):
            scan = ply_splat.read_packed(path, file, header, declared)
            return _with_notes(scan, header, declared)
        if header.order:
            tables = read_binary(path, file, header, size)
            surplus = size - file.tell()
        else:
            tables, surplus = read_ascii(path, file, header)
    if surplus >= header.row_size():
        declared.add(f"{surplus:,} {'bytes' if header.order else 'numbers'} after the last row")
    if "vertex" not in tables:
        raise unreadable(path, "it has no vertices")
    columns = tables["vertex"].scalars
    if ply_splat.is_original(header):
        return _with_notes(ply_splat.original_scan(path, columns, declared), header, declared)
    scan = vertex_scan(path, columns, declared)
    try:
        scan = add_surface(path, header, scan, tables, declared, in_child=in_child)
    except ScanRejectedError as error:
        raise unreadable(path, *error.args) from None
    return _with_notes(scan, header, declared)


def _with_notes(scan: Scan, header: Header, declared: Declared) -> Scan:
    """Return a scan with the up axis and unit that comments specify, and the note about what was ignored."""
    return replace(
        scan,
        up=up_of_comments(header.comments),
        metres=unit_of_comments(header.comments),
        notes=(*scan.notes, *declared.notes),
    )


def _declarations(header: Header) -> Declared:
    """Return what a PLY header declares; empty elements are of no interest."""
    names = []
    for element in header.elements:
        if element.count and element.name in ("face", STRIPS, "vertex"):
            prefix = "" if element.name == "vertex" else f"{element.name} "
            names += [prefix + column.name for column in element.properties]
        elif element.count:
            names.append(f"element {element.name}")
    names += [f"texture {name}" for name in header.comment(TEXTURE_COMMENT)]
    return Declared([*names, *header.comment(OTHER_COMMENT)])


def ply_kind(path: Path, start: bytes) -> ScanKind:
    """Return the kind of scan in a PLY file from its first bytes; "mesh" if the header is invalid."""
    try:
        header = read_header(path, start, path.stat().st_size)
    except SceneError:
        return "mesh"
    if ply_splat.is_packed(header) or ply_splat.is_original(header):
        return "splat"
    has_surface = any(part.name in ("face", STRIPS) and part.count for part in header.elements)
    return "mesh" if has_surface else "cloud"
