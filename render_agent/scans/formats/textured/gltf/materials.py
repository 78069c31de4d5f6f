"""Read the materials of a glTF file, with the image and texture coordinates of their base colour."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.formats.textured.gltf.gltf_file import GltfFile, Tree
from render_agent.scans.formats.textured.image_files import (
    EncodedImage,
    decode_images,
    read_sibling,
)
from render_agent.scans.texture import Material, Wrap

FloatArray = NDArray[np.float64]

MappedMaterial = tuple[Material | None, int, FloatArray]
"""A material, the index of its texture coordinates, and their transform, (2, 3)."""

WRAPS: dict[int, Wrap] = {10497: "repeat", 33071: "clamp", 33648: "mirror"}

BLEND_CUTOFF = 0.5  # in blended materials, texels with a lower alpha are holes


def read_materials(
    gltf: GltfFile, numbers: set[int | None], *, in_child: bool
) -> tuple[dict[int | None, MappedMaterial], list[str]]:
    """Return materials by number, and notes about their images; the material of None has no colour.

    Args:
        gltf: The file.
        numbers: Numbers of the materials in use.
        in_child: Whether this is a child process.

    Raises:
        NeedsChildProcess: See `decodeimages`.
        ScanRejectedError: See `decodeimages`.
    """
    entries = {number: _material(gltf.tree, number) for number in numbers if number is not None}
    sources = dict.fromkeys(
        mapping["source"] for mapping, _ in entries.values() if mapping.get("source") is not None
    )
    pictures, notes = decode_images(
        {source: partial(_picture, gltf, source) for source in sources}, in_child=in_child
    )
    materials: dict[int | None, MappedMaterial] = {None: (None, 0, np.eye(2, 3))}
    for number, (mapping, material) in entries.items():
        picture = pictures.get(mapping.get("source", -1))
        if picture is None:
            materials[number] = (replace(material, alpha_cutoff=None), 0, np.eye(2, 3))
        else:
            textured = replace(material, picture=picture, captured=True)
            materials[number] = (textured, mapping["uv"], mapping["transform"])
    return materials, notes


def _material(tree: Tree, number: int) -> tuple[Tree, Material]:
    """Return the texture mapping of a material, and the material without its image."""
    entry = tree["materials"][number]
    extensions = entry.get("extensions") or {}
    base = entry.get("pbrMetallicRoughness") or {}
    glossy = extensions.get("KHR_materials_pbrSpecularGlossiness")
    factor, texture = base.get("baseColorFactor"), base.get("baseColorTexture")
    if glossy:
        factor, texture = glossy.get("diffuseFactor"), glossy.get("diffuseTexture")
    tint = np.ones(4) if factor is None else np.asarray(factor, np.float64).reshape(4)
    if not np.isfinite(tint).all():
        raise ValueError("a colour is not finite")
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
    """Return a texture's mapping (image number, coordinate set and transform) and its wrap modes."""
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


def _picture(gltf: GltfFile, number: int) -> EncodedImage:
    entry = gltf.tree["images"][number]
    if "bufferView" in entry:
        return EncodedImage.of(gltf.view(entry["bufferView"]))
    uri = str(entry["uri"])
    return EncodedImage.of(read_sibling(gltf.path.parent, uri), uri)


def _cutoff(material: Tree, alpha: float) -> float | None:
    """Return the alpha below which texels are holes, divided by the alpha of the base colour factor."""
    mode = material.get("alphaMode", "OPAQUE")
    if mode == "BLEND":
        return BLEND_CUTOFF
    if mode != "MASK":
        return None
    cutoff = float(material.get("alphaCutoff", 0.5))
    return cutoff / alpha if alpha > 0 else 2.0


def _uv_transform(change: Tree) -> FloatArray:
    """Return the (2, 3) matrix of KHR_texture_transform: scale, then rotate, then translate."""
    (x, y), (scale_u, scale_v) = change.get("offset", (0, 0)), change.get("scale", (1, 1))
    angle = float(change.get("rotation", 0))
    cosine, sine = math.cos(angle), math.sin(angle)
    return np.array(
        [[cosine * scale_u, sine * scale_v, x], [-sine * scale_u, cosine * scale_v, y]], np.float64
    )
