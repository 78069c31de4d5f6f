"""Read Wavefront OBJ files with their materials."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from render_agent.scans.formats.cleaning import Scan
from render_agent.scans.formats.colours import colour_bits
from render_agent.scans.formats.declared import Declared, decode_text
from render_agent.scans.formats.textured.image_files import ImageError, Siblings
from render_agent.scans.formats.textured.mtl import MtlMaterial, parse_mtl
from render_agent.scans.formats.textured.obj_file import ObjFile, parse_obj
from render_agent.scans.formats.textured.parts import Part, is_black, join_parts
from render_agent.scans.srgb import to_linear
from render_agent.scans.texture import Material, Wrap

MAXIMA = {0: 1, 8: 255, 16: 65535}  # of vertex colours, by `colour_bits`
MASK_CUTOFF = 0.5  # texels with a lower alpha are holes

Appearance = tuple[Material, MtlMaterial]


def read_obj(path: Path, *, in_child: bool) -> Scan:
    """Read an OBJ file and its materials, with the file's axes. Raises NeedsChildProcess."""
    declared = Declared()
    obj = parse_obj(path, declared)
    if not len(obj.corners):
        points = f", only {len(obj.points):,} points: export it as PLY" if len(obj.points) else ""
        raise ValueError("; ".join([f"it has no surface{points}", *declared.notes]))
    colours = None if obj.colours is None else _vertex_light(obj.colours, declared)
    siblings = Siblings(path.parent)
    materials, notes = _materials(siblings, obj, declared, in_child=in_child)
    parts = [
        _part(obj, rows, colours, materials.get(name)) for name, rows in _rows_by_material(obj)
    ]
    if colours is not None and any(part.uv is not None for part in parts):
        declared.add("vertex colours (the texture is used)")
    if len(obj.uv) and not any(part.uv is not None for part in parts):
        declared.add("texture coordinates")
    scan = join_parts(parts, notes)
    return replace(
        scan,
        metres=obj.metres,
        up=obj.up,
        notes=(*scan.notes, *declared.notes),
        files=siblings.opened,
    )


def _rows_by_material(obj: ObjFile) -> list[tuple[str | None, NDArray[np.intp] | slice]]:
    numbers = np.unique(obj.face_materials).tolist()
    if len(numbers) == 1:
        return [(obj.materials[numbers[0]] if numbers[0] >= 0 else None, slice(None))]
    return [
        (
            obj.materials[number] if number >= 0 else None,
            np.flatnonzero(obj.face_materials == number),
        )
        for number in numbers
    ]


def _vertex_light(colours: NDArray[Any], declared: Declared) -> NDArray[np.float64]:
    """Return vertex colours of any range in linear light; vertices without a colour are white."""
    is_missing = ~np.isfinite(colours).all(axis=1)
    top = float(colours[~is_missing].max(initial=0))
    maximum = MAXIMA[colour_bits(top)]
    if is_missing.any():
        colours = np.where(is_missing[:, None], maximum, colours)
        declared.add("missing colours of some vertices")
    return to_linear(np.clip(colours / maximum, 0, 1))


def _part(
    obj: ObjFile,
    rows: NDArray[np.intp] | slice,
    colours: NDArray[np.float64] | None,
    appearance: Appearance | None,
) -> Part:
    corners = obj.corners[rows]
    material = appearance[0] if appearance else None
    uv = None
    if material is not None and material.image is not None and len(obj.uv):
        # A vertex for each combination of a point and texture coordinates.
        keys, faces = np.unique(
            corners[..., 0] * (len(obj.uv) + 1) + corners[..., 1] + 1, return_inverse=True
        )
        used, coordinates = np.divmod(keys, len(obj.uv) + 1)
        uv = np.concatenate([np.full((1, 2), np.nan), obj.uv])[coordinates]
    elif isinstance(rows, slice):
        used, faces = np.arange(len(obj.points)), corners[..., 0]
    else:
        used, faces = np.unique(corners[..., 0], return_inverse=True)
    own = None if colours is None or uv is not None else colours[used]
    if material is not None and appearance is not None:
        entry = appearance[1]
        is_plain = material.image is None and not material.captured
        if own is not None and is_plain and entry.colour == _grey(entry.colour):
            material = replace(material, tint=(1.0, 1.0, 1.0, 1.0))
        if uv is not None:
            with np.errstate(invalid="ignore", over="ignore"):
                # OBJ's v axis points up.
                uv = (uv * entry.scale[:2] + entry.shift[:2]) * (1, -1) + (0, 1)
    return Part(obj.points[used], faces.reshape(-1, 3), material, uv, own)


def _grey(colour: tuple[float, ...]) -> tuple[float, ...]:
    """Return the grey with the level of a colour's first channel: exporters write a grey for "no colour"."""
    return (colour[0],) * len(colour)


def _materials(
    siblings: Siblings, obj: ObjFile, declared: Declared, *, in_child: bool
) -> tuple[dict[str | None, Appearance], list[str]]:
    """Return the used materials by name, and notes about them."""
    definitions: dict[str, MtlMaterial] = {}
    notes = []
    for line in obj.libraries:
        library, library_notes = _read_libraries(siblings, line)
        definitions |= library
        notes += library_notes
    used_names = [obj.materials[number] for number in np.unique(obj.face_materials) if number >= 0]
    entries = {name: definitions[name] for name in used_names if name in definitions}
    if not notes:
        for name in used_names:
            if name not in entries:
                declared.add(f"material {name} (not found)")
    for entry in entries.values():
        for key in (*entry.unused, *(["map_d"] if entry.alpha and not entry.image else [])):
            declared.add(key)
    with_image = [entry for entry in entries.values() if entry.image]
    names = [entry.image for entry in with_image] + [entry.alpha for entry in with_image]
    images, image_notes = siblings.decode(names, in_child=in_child)
    materials = {name: _material(entry, images) for name, entry in entries.items()}
    emitting = [name for name, entry in entries.items() if entry.light or any(entry.emission)]
    dark = [name for name in emitting if is_black(materials[name])]
    names = [entries[name].light for name in dark]
    lights, light_notes = siblings.decode(names, in_child=in_child)
    materials |= {name: _emission(entries[name], lights) for name in dark}
    if len(dark) < len(emitting):
        declared.add("emission")
    by_name: dict[str | None, Appearance] = {
        name: (materials[name], entry) for name, entry in entries.items()
    }
    return by_name, list(dict.fromkeys([*notes, *image_notes, *light_notes]))


def _read_libraries(siblings: Siblings, line: str) -> tuple[dict[str, MtlMaterial], list[str]]:
    """Return the materials of a `mtllib` statement, which is one name with spaces or several names, and notes."""
    materials: dict[str, MtlMaterial] = {}
    errors: dict[str, ImageError] = {}
    for name in dict.fromkeys([line, *line.split()]):
        try:
            materials |= parse_mtl(decode_text(siblings.read(name)))
        except ImageError as error:
            errors[name] = error
        else:
            if name == line:
                return materials, []
    is_one_name = errors.keys() >= set(line.split())
    reasons = [error for name, error in errors.items() if (name == line) is is_one_name]
    return materials, [f"materials were skipped: {reason}" for reason in reasons]


def _material(entry: MtlMaterial, images: dict[str, NDArray[np.uint8]]) -> Material:
    image = images.get(entry.image or "")
    colour = entry.colour
    if image is not None and colour == _grey(colour):
        # Exporters leave an arbitrary grey next to an image, and most viewers ignore it.
        colour = (1.0, 1.0, 1.0)
    mask = images.get(entry.alpha or "")
    cutoff = None
    if image is not None and mask is not None:
        clear = mask[..., 3] if (mask[..., 3] < 255).any() else mask[..., 0]
        size = (image.shape[1], image.shape[0])
        image = image.copy()
        image[..., 3] = np.asarray(Image.fromarray(clear).resize(size))
        cutoff = MASK_CUTOFF
    return Material(image, _tint(colour), _wrap(entry), cutoff, captured=image is not None)


def _emission(entry: MtlMaterial, lights: dict[str, NDArray[np.uint8]]) -> Material:
    """Return a material whose base is black with its emission as colour, as baked scans are exported."""
    image = lights.get(entry.light or "")
    colour = (1.0, 1.0, 1.0) if image is not None else entry.emission
    return Material(image, _tint(colour), _wrap(entry))


def _tint(colour: tuple[float, ...]) -> tuple[float, float, float, float]:
    red, green, blue = (float(share) for share in to_linear(np.clip(np.array(colour), 0, 1)))
    return red, green, blue, 1.0


def _wrap(entry: MtlMaterial) -> tuple[Wrap, Wrap]:
    wrap: Wrap = "clamp" if entry.clamped else "repeat"
    return wrap, wrap
