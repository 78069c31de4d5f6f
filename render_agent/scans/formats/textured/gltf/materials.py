"""The materials of a glTF file, each with the picture and the texture coordinates of its base colour."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.formats.textured.gltf.gltf_file import GltfFile, Tree
from render_agent.scans.formats.textured.picture_files import Picture, decoded, file_beside
from render_agent.scans.texture import Material, Wrap

FloatArray = NDArray[np.float64]

MappedMaterial = tuple[Material | None, int, FloatArray]
"""A material, its set of texture coordinates, and their transform, (2, 3)."""

WRAPS: dict[int, Wrap] = {10497: "repeat", 33071: "clamp", 33648: "mirror"}

BLEND_CUTOFF = 0.5
"""Texels that are more than half clear are holes where a material blends."""


def read_materials(
    gltf: GltfFile, numbers: set[int | None], *, apart: bool
) -> tuple[dict[int | None, MappedMaterial], list[str]]:
    """Return materials by their number, that of None without any colour, and notes about their pictures.

    apart: whether this is a process of its own. NeedsProcess, Refused: see `decoded`.
    """
    read = {number: _material(gltf.tree, number) for number in numbers if number is not None}
    wanted = dict.fromkeys(
        mapping["source"] for mapping, _ in read.values() if mapping.get("source") is not None
    )
    pictures, notes = decoded(
        {source: partial(_picture, gltf, source) for source in wanted}, apart=apart
    )
    materials: dict[int | None, MappedMaterial] = {None: (None, 0, np.eye(2, 3))}
    for number, (mapping, material) in read.items():
        picture = pictures.get(mapping.get("source", -1))
        if picture is None:
            materials[number] = (replace(material, alpha_cutoff=None), 0, np.eye(2, 3))
        else:
            shown = replace(material, picture=picture, captured=True)
            materials[number] = (shown, mapping["uv"], mapping["transform"])
    return materials, notes


def _material(tree: Tree, number: int) -> tuple[Tree, Material]:
    """Return where a material's picture is, and the material without it."""
    entry = tree["materials"][number]
    extensions = entry.get("extensions") or {}
    base = entry.get("pbrMetallicRoughness") or {}
    glossy = extensions.get("KHR_materials_pbrSpecularGlossiness")
    factor, texture = base.get("baseColorFactor"), base.get("baseColorTexture")
    if glossy:
        factor, texture = glossy.get("diffuseFactor"), glossy.get("diffuseTexture")
    tint = np.ones(4) if factor is None else np.asarray(factor, np.float64).reshape(4)
    if not np.isfinite(tint).all():
        raise ValueError("a colour of it is not finite")
    red, green, blue, alpha = (float(share) for share in np.clip(tint, 0, 1))
    material = Material(
        None, (red, green, blue, alpha), captured="KHR_materials_unlit" in extensions
    )
    mapping: Tree = {}
    if texture:
        mapping, wrap = _texture(tree, texture)
        material = replace(material, wrap=wrap, alpha_cutoff=_cutoff(entry, alpha))
    return mapping, material


def _texture(tree: Tree, info: Tree) -> tuple[Tree, tuple[Wrap, Wrap]]:
    """Return where the picture of a texture is (its number, coordinates and their transform), and how it wraps."""
    entry = tree["textures"][info["index"]]
    extensions = entry.get("extensions") or {}
    source = entry.get("source")
    for name in ("EXT_texture_webp", "KHR_texture_basisu"):
        if name in extensions and (source is None or name == "EXT_texture_webp"):
            source = extensions[name].get("source")
    mapping: Tree = {"source": source, "uv": int(info.get("texCoord", 0))}
    mapping["transform"] = np.eye(2, 3)
    change = (info.get("extensions") or {}).get("KHR_texture_transform")
    if change:
        mapping["uv"] = int(change.get("texCoord", mapping["uv"]))
        mapping["transform"] = _uv_transform(change)
    sampler = tree["samplers"][entry["sampler"]] if "sampler" in entry else {}
    kinds = (sampler.get("wrapS", 10497), sampler.get("wrapT", 10497))
    return mapping, (WRAPS[kinds[0]], WRAPS[kinds[1]])


def _picture(gltf: GltfFile, number: int) -> Picture:
    entry = gltf.tree["images"][number]
    if "bufferView" in entry:
        return Picture.of(gltf.view(entry["bufferView"]))
    uri = str(entry["uri"])
    return Picture.of(file_beside(gltf.path.parent, uri), uri)


def _cutoff(material: Tree, alpha: float) -> float | None:
    """Return the alpha below which texels are holes; the factor's alpha is taken out of it."""
    mode = material.get("alphaMode", "OPAQUE")
    if mode == "BLEND":
        return BLEND_CUTOFF
    if mode != "MASK":
        return None
    cutoff = float(material.get("alphaCutoff", 0.5))
    return cutoff / alpha if alpha > 0 else 2.0


def _uv_transform(change: Tree) -> FloatArray:
    """Return the (2, 3) matrix of KHR_texture_transform: scale, then turn, then shift."""
    (x, y), (across, down) = change.get("offset", (0, 0)), change.get("scale", (1, 1))
    angle = float(change.get("rotation", 0))
    cosine, sine = math.cos(angle), math.sin(angle)
    return np.array(
        [[cosine * across, sine * down, x], [-sine * across, cosine * down, y]], np.float64
    )
