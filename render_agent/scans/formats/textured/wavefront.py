"""Read Wavefront OBJ: geometry with trimesh, MTL materials with our own parser.

trimesh silently drops images that it cannot open, and vertex colours of objects with a material.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from render_agent.scans.formats.cleaning import Scan
from render_agent.scans.formats.colour_range import colour_bits
from render_agent.scans.formats.textured.image_files import (
    EncodedImage,
    ImageError,
    decode_images,
    read_sibling,
)
from render_agent.scans.formats.textured.obj_faces import plain_faces
from render_agent.scans.formats.textured.parts import Part, join_parts
from render_agent.scans.formats.triangulation import triangles
from render_agent.scans.srgb import to_linear
from render_agent.scans.texture import Material, Wrap

# Options that may precede the image name in a map_* line.
OPTION = re.compile(r"-(?:blendu|blendv|cc|clamp|imfchan|texres|bm|boost|mm|o|s|t|type)\b", re.I)

MAXIMA = {0: 1, 8: 255, 16: 65535}  # of vertex colours, by `colour_bits`
MASK_CUTOFF = 0.5  # texels with a lower alpha are holes
# Enough for a face with thousands of corners; trimesh needs hundreds of bytes for each.
MAX_LINE_BYTES = 1 << 16


@dataclass(frozen=True)
class _MtlMaterial:
    """A material in an MTL file.

    Attributes:
        colour: sRGB base colour from 0 to 1.
        emission: sRGB emission from 0 to 1.
        picture: Name of the colour image.
        alpha: Name of the opacity image.
        light: Name of the emission image.
        is_captured: Whether the colour is an emission, which must not be shaded.
        scale: Factors of the texture coordinates.
        shift: Offsets of the texture coordinates.
        clamped: Whether the image ends at its edges instead of being repeated.
    """

    colour: tuple[float, ...] = (1.0, 1.0, 1.0)
    emission: tuple[float, ...] = (0.0, 0.0, 0.0)
    picture: str | None = None
    alpha: str | None = None
    light: str | None = None
    is_captured: bool = False
    scale: tuple[float, ...] = (1.0, 1.0)
    shift: tuple[float, ...] = (0.0, 0.0)
    clamped: bool = False


class _Names:
    """Resolver that serves trimesh an MTL file with nothing but material names."""

    def __init__(self, names: set[str]) -> None:
        self.text = "".join(f"newmtl {name}\n" for name in sorted(names)).encode()

    def __getitem__(self, name: str) -> bytes:
        return self.text


def read_obj(path: Path, *, in_child: bool) -> Scan:
    """Read an OBJ file and its materials, with the file's axes.

    Args:
        path: The OBJ file.
        in_child: Whether this is a child process.

    Raises:
        NeedsChildProcess: Its images need a child process.
        ScanRejectedError: Its images are too large.
        Exception: Whatever trimesh raises on a malformed file.
    """
    from trimesh.exchange.obj import load_obj

    data = path.read_bytes()
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
    longest = int(np.diff(ends, prepend=-1, append=len(data)).max())
    if longest > MAX_LINE_BYTES:
        raise ValueError(f"a line has {longest:,} bytes")
    text = plain_faces(data.decode("utf-8", "replace"))
    used = {
        " ".join(name.split()) for name in re.findall(r"^\s*usemtl\s+(.+)$", text, re.MULTILINE)
    }
    libraries = re.findall(r"^\s*mtllib\s+(.+)$", text, re.MULTILINE)
    if used:  # trimesh only reports material names if it finds an MTL file
        text = "mtllib names\n" + re.sub(r"^\s*mtllib.*$", "", text, flags=re.MULTILINE)
    mesh = load_obj(io.BytesIO(text.encode("utf-8", "replace")), resolver=_Names(used))
    geometries = list(mesh.get("geometry", {"": mesh}).values())
    materials, notes = _materials(path.parent, libraries, used, in_child=in_child)
    parts = []
    for geometry in geometries:
        visual = geometry.get("visual")
        name = None if visual is None else getattr(visual.material, "name", None)
        parts.append(
            _part(geometry, materials.get(str(name)), None if visual is None else visual.uv)
        )
    surfaces = [part for part in parts if part.faces is not None and len(part.faces)]
    if not surfaces:
        raise ValueError("it has no surface")
    return join_parts(surfaces, notes)


def _part(
    geometry: dict[str, Any],
    appearance: tuple[Material, _MtlMaterial] | None,
    uv: NDArray[Any] | None,
) -> Part:
    points = np.asarray(geometry["vertices"], np.float64)
    if points.ndim != 2 or points.shape[1] != 3:
        raise ValueError("its vertices do not have three coordinates")
    polygons = np.asarray(geometry.get("faces", np.empty((0, 3))), np.int64)
    if polygons.size and not 0 <= polygons.min() <= polygons.max() < len(points):
        raise ValueError("a face refers to a vertex that does not exist")
    faces = triangles({polygons.shape[1]: polygons}, points)
    colours = geometry.get("vertex_colors")
    if colours is not None:
        is_bytes = np.asarray(colours).dtype.kind == "u"
        colours = np.asarray(colours)[:, :3]
        if colours.shape != points.shape:
            colours = None
        else:
            colours = np.nan_to_num(colours.astype(np.float64))
            bits = colour_bits(float(colours.max(initial=0)), are_integers=is_bytes)
            colours = to_linear(np.clip(colours / MAXIMA[bits], 0, 1))
    if appearance is None:
        return Part(points, faces, None, None, colours)
    material, entry = appearance
    if colours is not None and material.picture is None and entry.colour == _grey(entry.colour):
        material = replace(material, tint=(1.0, 1.0, 1.0, 1.0))
    scaled_uv = None
    if uv is not None and np.shape(uv)[:1] == (len(points),):
        with np.errstate(invalid="ignore", over="ignore"):
            scaled_uv = np.asarray(uv, np.float64)[:, :2] * entry.scale[:2] + entry.shift[:2]
        scaled_uv = scaled_uv * (1, -1) + (0, 1)  # OBJ's v axis points up
    return Part(points, faces, material, scaled_uv, colours)


def _grey(colour: tuple[float, ...]) -> tuple[float, ...]:
    """Return the grey with the level of a colour's first channel: exporters write a grey for "no colour"."""
    return (colour[0],) * len(colour)


def _materials(
    folder: Path, libraries: list[str], used: set[str], *, in_child: bool
) -> tuple[dict[str, tuple[Material, _MtlMaterial]], list[str]]:
    """Return the used materials by name, and notes about them."""
    entries: dict[str, _MtlMaterial] = {}
    notes = []
    for line in libraries:
        for name in dict.fromkeys([line.strip(), *line.split()]):
            try:
                entries |= _library(read_sibling(folder, name).decode("utf-8", "replace"))
                break
            except ImageError as error:
                reason = error
        else:
            notes.append(f"materials were skipped: {reason}")
    entries = {name: entry for name, entry in entries.items() if name in used}
    image_names = {entry.picture: None for entry in entries.values() if entry.picture}
    image_names |= {
        entry.alpha: None for entry in entries.values() if entry.picture and entry.alpha
    }
    pictures, picture_notes = decode_images(
        {name: partial(_open_image, folder, name) for name in image_names if name},
        in_child=in_child,
    )
    materials = {name: (_material(entry, pictures), entry) for name, entry in entries.items()}
    return materials, notes + picture_notes


def _open_image(folder: Path, name: str) -> EncodedImage:
    return EncodedImage.of(read_sibling(folder, name), name)


def _material(entry: _MtlMaterial, pictures: dict[str, NDArray[np.uint8]]) -> Material:
    picture = pictures.get(entry.picture or "")
    colour = entry.colour
    if picture is not None and colour == _grey(colour):
        # Exporters leave an arbitrary grey next to an image, and most viewers ignore it.
        colour = (1.0, 1.0, 1.0)
    red, green, blue = (float(share) for share in to_linear(np.clip(np.array(colour), 0, 1)))
    mask = pictures.get(entry.alpha or "")
    cutoff = None
    if picture is not None and mask is not None:
        clear = mask[..., 3] if (mask[..., 3] < 255).any() else mask[..., 0]
        size = (picture.shape[1], picture.shape[0])
        picture = picture.copy()
        picture[..., 3] = np.asarray(Image.fromarray(clear).resize(size))
        cutoff = MASK_CUTOFF
    wrap: Wrap = "clamp" if entry.clamped else "repeat"
    return Material(
        picture,
        (red, green, blue, 1.0),
        (wrap, wrap),
        cutoff,
        captured=picture is not None or entry.is_captured,
    )


def _library(text: str) -> dict[str, _MtlMaterial]:
    """Parse the materials of an MTL file, by name; unknown or invalid lines are ignored."""
    entries: dict[str, _MtlMaterial] = {}
    name: str | None = None
    for line in text.splitlines():
        key, _, rest = line.strip().partition(" ")
        key, rest = key.lower(), rest.strip()
        if key == "newmtl":
            name = " ".join(rest.split())
            entries[name] = _MtlMaterial()
        elif name is None:
            continue
        elif key in ("kd", "ke"):
            if colour := _numbers(rest.split()):
                colour = (colour * 3)[:3]
                entry = entries[name]
                entries[name] = (
                    replace(entry, colour=colour)
                    if key == "kd"
                    else replace(entry, emission=colour)
                )
        elif key == "map_kd":
            entries[name] = replace(entries[name], **_picture_line(rest))
        elif key == "map_ke":
            entries[name] = replace(entries[name], light=_picture_line(rest)["picture"])
        elif key == "map_d":
            entries[name] = replace(entries[name], alpha=_picture_line(rest)["picture"])
    return {name: _lit(entry) for name, entry in entries.items()}


def library_images(text: str) -> Iterator[str]:
    """Yield the names of all images in an MTL file."""
    for entry in _library(text).values():
        yield from filter(None, (entry.picture, entry.alpha, entry.light))


def _lit(entry: _MtlMaterial) -> _MtlMaterial:
    """Return a material whose base is black with its emission as colour, as baked scans are exported."""
    if entry.picture or any(entry.colour):
        return entry
    if entry.light:
        return replace(entry, picture=entry.light, colour=(1.0, 1.0, 1.0))
    return replace(entry, colour=entry.emission, is_captured=any(entry.emission))


def _picture_line(rest: str) -> dict[str, Any]:
    """Parse the rest of a line `map_Kd [options] NAME`: the image name and the supported options."""
    options: dict[str, Any] = {}
    words = rest.split()
    while words and OPTION.fullmatch(words[0]):
        option, words = words[0].lower(), words[1:]
        values: list[str] = []
        while len(words) > 1 and (_numbers(words[:1]) or (not values and _is_word(option))):
            values.append(words[0])
            words = words[1:]
            if _is_word(option):
                break
        numbers = _numbers(values)
        if option == "-s" and numbers:
            options["scale"] = (*numbers, 1.0)[:2] if len(numbers) > 1 else (numbers[0], 1.0)
        elif option == "-o" and numbers:
            options["shift"] = (*numbers, 0.0)[:2]
        elif option == "-clamp":
            options["clamped"] = values[:1] == ["on"]
    # An image name with spaces is the unmodified rest of the line.
    options["picture"] = rest[len(rest) - len(_tail(rest, len(words))) :].strip() or None
    return options


def _is_word(option: str) -> bool:
    """Return True if an option takes one word rather than numbers."""
    return option in ("-blendu", "-blendv", "-cc", "-clamp", "-imfchan", "-type")


def _tail(text: str, count: int) -> str:
    """Return the last `count` words of a text with the spaces between them."""
    match = re.search(rf"(?:\S+\s*){{{count}}}$", text) if count else None
    return match[0] if match else ""


def _numbers(words: list[str]) -> tuple[float, ...]:
    """Return the words as finite numbers, or () if any is not one."""
    try:
        values = tuple(float(word) for word in words)
    except ValueError:
        return ()
    return values if np.isfinite(values).all() else ()
