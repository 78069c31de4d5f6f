"""The files that a scan file refers to: materials, textures and buffers, found without loading the scan."""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from render_agent.errors import SceneError
from render_agent.scans.formats.ply.header import MAX_HEADER_BYTES
from render_agent.scans.formats.ply.surface import TEXTURE_COMMENT
from render_agent.scans.formats.reading_process import read_in_child
from render_agent.scans.formats.textured.image_files import (
    ImageError,
    find_siblings,
    is_inside,
    read_sibling,
)
from render_agent.scans.formats.textured.mtl import library_images
from render_agent.util.safe_parse import parse_json

GLB_HEADER = struct.Struct("<12xI4x")  # length of the JSON chunk
USD_SUFFIXES = (".usd", ".usda", ".usdc")  # USDZ contains its files


def companion_files(scan: Path) -> list[Path]:
    """Return the other files that reading a scan depends on, sorted; empty if the scan is not readable.

    A file that does not exist is included under the name that the scan gives it, because the scan would look
    different with it.
    """
    # the reader reports what is wrong with a malformed scan
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError, struct.error):
        return sorted(set(_companions(scan)) - {scan})
    return []


def _companions(scan: Path) -> Iterator[Path]:
    suffix = scan.suffix.lower()
    if suffix == ".obj":
        yield from _of_obj(scan)
    elif suffix in (".gltf", ".glb"):
        yield from _resolve(scan.parent, _gltf_names(scan))
    elif suffix in USD_SUFFIXES:
        with suppress(SceneError):
            yield from read_in_child(usd_companions, scan, scan.stat().st_size)
    else:
        yield from _resolve(scan.parent, _ply_names(scan))


def _resolve(folder: Path, names: Iterator[str]) -> Iterator[Path]:
    for name in names:
        if name.lower().startswith("data:"):
            continue
        path_in_folder = folder / name.replace("\\", "/")
        if not is_inside(path_in_folder, folder):
            path_in_folder = folder / path_in_folder.name
        with suppress(ImageError):  # files elsewhere are not read
            yield next(find_siblings(folder, name), path_in_folder)


def _of_obj(scan: Path) -> Iterator[Path]:
    """Yield the MTL files of an OBJ file, and the images that they name."""
    for line in _library_lines(scan):
        for name in dict.fromkeys([line, *line.split()]):  # as the reader looks for it
            paths = list(_resolve(scan.parent, iter([name])))
            yield from paths
            if not any(path.is_file() for path in paths):
                continue
            text = read_sibling(scan.parent, name).decode("utf-8", "replace")
            yield from _resolve(scan.parent, library_images(text))
            if name == line:
                break


def _library_lines(scan: Path) -> Iterator[str]:
    """Yield the arguments of the `mtllib` lines of an OBJ file, which may be at any place in it."""
    with scan.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        at = content.find(b"mtllib")
        while at >= 0:
            start, end = content.rfind(b"\n", 0, at) + 1, content.find(b"\n", at)
            line = content[start : end if end >= 0 else len(content)]
            if match := re.match(rb"\s*mtllib\s+(.+)", line):
                yield match[1].decode("utf-8", "replace").strip()
            at = content.find(b"mtllib", end) if end >= 0 else -1


def _gltf_names(scan: Path) -> Iterator[str]:
    with scan.open("rb") as file:
        start = file.read(GLB_HEADER.size)
        if start.startswith(b"glTF"):
            text = file.read(GLB_HEADER.unpack(start)[0])
        else:
            text = start + file.read()
    tree: dict[str, Any] = parse_json(text.rstrip(b"\0"))
    for kind in ("buffers", "images"):
        for entry in tree.get(kind) or ():
            if isinstance(uri := entry.get("uri"), str):
                yield uri


def _ply_names(scan: Path) -> Iterator[str]:
    with scan.open("rb") as file:
        start = file.read(MAX_HEADER_BYTES)
    if start.startswith(b"ply"):
        header = start.partition(b"end_header")[0].decode("utf-8", "replace")
        pattern = rf"^[ \t]*+(?:comment|obj_info)[ \t]++{TEXTURE_COMMENT}$"
        for name in re.findall(pattern, header, re.IGNORECASE | re.MULTILINE):
            yield name.strip()


def usd_companions(scan: Path, size: int) -> list[Path]:
    """Return the layers and assets of a USD file that exist."""
    from pxr import Sdf, UsdUtils

    layers, assets, unresolved = UsdUtils.ComputeAllDependencies(Sdf.AssetPath(str(scan)))
    files = [layer.realPath for layer in layers] + list(assets)
    existing_files = [path for file in files if (path := Path(file)).is_file()]
    return [*existing_files, *_resolve(scan.parent, iter(map(str, unresolved)))]
