"""Read the materials of a glTF file, with the image and texture coordinates of their colour.

The colour is the base colour, or the emission if the base is black, as in baked scans.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.formats.declared import Declared
from render_agent.scans.formats.textured.gltf.gltf_file import GltfFile, Tree, extension
from render_agent.scans.formats.textured.image_files import EncodedImage, decode_images
from render_agent.scans.formats.textured.parts import is_black
from render_agent.scans.texture import Material, Wrap

FloatArray = NDArray[np.float64]

MappedMaterial = tuple[Material | None, int, FloatArray]
"""A material, the index of its texture coordinates, and their transform, (2, 3)."""

WRAPS: dict[int, Wrap] = {10497: "repeat", 33071: "clamp", 33648: "mirror"}

STRENGTH = "KHR_materials_emissive_strength"

BLEND_CUTOFF = 0.5  # in blended materials, texels with a lower alpha are holes


def read_materials(
    gltf: GltfFile, numbers: set[int | None], declared: Declared, *, in_child: bool
) -> tuple[dict[int | None, MappedMaterial], list[str]]:
    """Return materials by number, and notes about their images; the material of None has no colour."""
    materials: dict[int | None, MappedMaterial] = {None: (None, 0, np.eye(2, 3))}
    entries = {number: gltf.tree["materials"][number] for number in numbers if number is not None}
    for name in (name for entry in entries.values() for name in _inputs(entry)):
        declared.add(name)
    declared.use("baseColorTexture", "diffuseTexture")
    base = {number: _base(gltf.tree, entry) for number, entry in entries.items()}
    decoded, notes = _decode(gltf, base, in_child=in_child)
    materials |= decoded
    emission = {
        number: _emission(gltf.tree, entry)
        for number, entry in entries.items()
        if _emits(entry) and is_black(materials[number][0])
    }
    if emission:
        decoded, emission_notes = _decode(gltf, emission, in_child=in_child)
        materials |= decoded
        notes += emission_notes
        if all(number in emission for number, entry in entries.items() if _emits(entry)):
            declared.use("emissiveTexture", "emissiveFactor", "KHR_materials_emissive_strength")
    return materials, list(dict.fromkeys(notes))


def _decode(
    gltf: GltfFile, mappings: Mapping[int, tuple[Tree, Material]], *, in_child: bool
) -> tuple[dict[int | None, MappedMaterial], list[str]]:
    """Return materials with their decoded images, given the mappings of their textures, and notes about the images."""
    sources = dict.fromkeys(
        mapping["source"] for mapping, _ in mappings.values() if mapping.get("source") is not None
    )
    images, notes = decode_images(
        {source: partial(_load_image, gltf, source) for source in sources}, in_child=in_child
    )
    materials: dict[int | None, MappedMaterial] = {}
    for number, (mapping, material) in mappings.items():
        image = images.get(mapping.get("source", -1))
        if image is None:
            materials[number] = (replace(material, alpha_cutoff=None), 0, np.eye(2, 3))
        else:
            decoded_material = replace(material, image=image, captured=True)
            materials[number] = (decoded_material, mapping["uv"], mapping["transform"])
    return materials, notes


def _inputs(entry: Tree) -> Iterator[str]:
    """Yield the inputs of a material that may change its appearance: textures, emission and transparency."""
    base = entry.get("pbrMetallicRoughness") or {}
    for part in (entry, base, *(entry.get("extensions") or {}).values()):
        yield from (name for name in part if name.endswith("Texture"))
    if any(entry.get("emissiveFactor") or ()):
        yield "emissiveFactor"
    if entry.get("alphaMode") == "BLEND" and (base.get("baseColorFactor") or [1])[-1] < 1:
        yield "alphaMode BLEND"


def _base(tree: Tree, entry: Tree) -> tuple[Tree, Material]:
    """Return the texture mapping of a material's base colour, and the material without its image."""
    base = entry.get("pbrMetallicRoughness") or {}
    factor, texture = base.get("baseColorFactor"), base.get("baseColorTexture")
    if glossy := extension(entry, "KHR_materials_pbrSpecularGlossiness"):
        factor, texture = glossy.get("diffuseFactor"), glossy.get("diffuseTexture")
    red, green, blue, alpha = _colour(factor, 4)
    is_unlit = "KHR_materials_unlit" in (entry.get("extensions") or {})
    material = Material(None, (red, green, blue, alpha), captured=is_unlit)
    mapping: Tree = {}
    if texture:
        mapping, wrap = _texture(tree, texture)
        material = replace(material, wrap=wrap, alpha_cutoff=_cutoff(entry, alpha))
    return mapping, material


def _emission(tree: Tree, entry: Tree) -> tuple[Tree, Material]:
    """Return the texture mapping of a material's emission, and the material without its image."""
    strength = float(extension(entry, STRENGTH).get("emissiveStrength", 1))
    red, green, blue = _colour(np.multiply(entry["emissiveFactor"], strength), 3)
    material = Material(None, (red, green, blue, 1.0))
    mapping: Tree = {}
    if texture := entry.get("emissiveTexture"):
        mapping, wrap = _texture(tree, texture)
        material = replace(material, wrap=wrap)
    return mapping, material


def _emits(entry: Tree) -> bool:
    return bool(np.any(np.asarray(entry.get("emissiveFactor") or (), np.float64) > 0))


def _colour(factor: Any, width: int) -> tuple[float, ...]:
    """Return a colour factor, clipped to 0 to 1; white if it is None."""
    values = np.ones(width) if factor is None else np.asarray(factor, np.float64).reshape(width)
    if not np.isfinite(values).all():
        raise ValueError("a colour is not finite")
    return tuple(float(share) for share in np.clip(values, 0, 1))


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
    if change := extension(info, "KHR_texture_transform"):
        if "texCoord" in change:
            mapping["uv"] = int(change["texCoord"])
        mapping["transform"] = _uv_transform(change)
    sampler = tree["samplers"][entry["sampler"]] if "sampler" in entry else {}
    kinds = (sampler.get("wrapS", 10497), sampler.get("wrapT", 10497))
    return mapping, (WRAPS[kinds[0]], WRAPS[kinds[1]])


def _load_image(gltf: GltfFile, number: int) -> EncodedImage:
    entry = gltf.tree["images"][number]
    if "bufferView" in entry:
        return EncodedImage.of(gltf.view(entry["bufferView"]))
    uri = str(entry["uri"])
    return EncodedImage.of(gltf.siblings.read(uri), uri)


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
