"""Resolve USD materials: the values and textures of their UsdPreviewSurface, through networks of any depth.

Connections, interface inputs, node graphs and bindings are resolved by UsdShade.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.formats.declared import Declared
from render_agent.scans.formats.textured.image_files import (
    EncodedImage,
    ImageError,
    Siblings,
    decode_images,
    is_inside,
)
from render_agent.scans.formats.textured.parts import is_black
from render_agent.scans.srgb import to_linear, to_srgb
from render_agent.scans.texture import Material, Wrap
from render_agent.util.reasons import short_repr

GREY = (0.18, 0.18, 0.18)  # linear light; UsdPreviewSurface's default diffuseColor
BLACK = (0.0, 0.0, 0.0)
BLEND_CUTOFF = 0.5  # in blended materials, texels with a lower alpha are holes

WRAPS: dict[str, Wrap] = {
    "repeat": "repeat",
    "clamp": "clamp",
    "mirror": "mirror",
    "black": "clamp",
}
UNCHANGED = ((1.0, 1.0, 1.0, 1.0), (0.0, 0.0, 0.0, 0.0))  # scale and bias of texels
IDENTITY = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)

Colour = tuple[float, float, float]


@dataclass(frozen=True)
class Image:
    """A UsdUVTexture."""

    asset: str  # path of the image, resolved if it exists
    folder: str | None = None  # folder of the layer that refers to it; None if unknown
    wrap: tuple[Wrap, Wrap] = ("repeat", "repeat")
    levels: tuple[tuple[float, ...], tuple[float, ...]] = UNCHANGED
    """Scale and bias of its texels, each for RGBA."""
    is_raw: bool = False  # whether its texels are linear light
    primvar: str = "st"
    transform: tuple[float, ...] = IDENTITY
    """Rows of the (2, 3) matrix applied to the texture coordinates."""


@dataclass(frozen=True)
class Source:
    """The value of a colour input: a constant in linear light, an image, or a primvar of the mesh."""

    value: Colour
    image: Image | None = None
    primvar: str | None = None


@dataclass(frozen=True)
class Appearance:
    """Appearance of a material: diffuse colour, emission, and the alpha below which texels are holes."""

    diffuse: Source = Source(GREY)
    emission: Source = Source(BLACK)
    alpha_cutoff: float | None = None

    @property
    def primvars(self) -> set[str]:
        sources = (self.diffuse, self.emission)
        names = {source.image.primvar for source in sources if source.image}
        return names | ({self.diffuse.primvar} if self.diffuse.primvar else set())


PLAIN = Appearance()


class Materials:
    """Resolves the materials of a stage, and adds to `declared` what is not shown of them."""

    def __init__(self, time: Any, declared: Declared) -> None:
        self._time = time
        self._declared = declared
        self._appearances: dict[str, Appearance | None] = {}

    def of_faces(
        self, prim: Any, count: int
    ) -> tuple[tuple[Appearance | None, ...], NDArray[np.int64]]:
        """Return the appearances of a mesh with `count` faces, and the index of each face's appearance."""
        from pxr import UsdShade

        appearances = [self._bound(prim)]
        numbers = np.zeros(count, np.int64)
        for subset in UsdShade.MaterialBindingAPI(prim).GetMaterialBindSubsets():
            at = np.array(subset.GetIndicesAttr().Get(self._time) or [], np.int64)
            numbers[at[(at >= 0) & (at < count)]] = len(appearances)
            appearances.append(self._bound(subset.GetPrim()))
        return tuple(appearances), numbers

    def _bound(self, prim: Any) -> Appearance | None:
        """Return the appearance of the material bound to a prim, or None if it has none that is supported."""
        from pxr import UsdShade

        binding = UsdShade.MaterialBindingAPI(prim)
        material = None
        for purpose in (UsdShade.Tokens.preview, UsdShade.Tokens.full):
            material = material or binding.ComputeBoundMaterial(purpose)[0]
        if not material:
            return None
        path = str(material.GetPath())
        if path not in self._appearances:
            self._appearances[path] = self._appearance(material)
        return self._appearances[path]

    def _appearance(self, material: Any) -> Appearance | None:
        surface = material.ComputeSurfaceSource()[0]
        if not surface or surface.GetShaderId() != "UsdPreviewSurface":
            outputs = [output.GetBaseName() for output in material.GetSurfaceOutputs()]
            contexts = [name.rpartition(":")[0] for name in outputs if ":" in name]
            kind = ", ".join(contexts) or "no surface"
            if surface:
                kind = surface.GetShaderId() or "source code"
            kind = {"mtlx": "MaterialX"}.get(kind, kind)
            self._declared.add(f"material {material.GetPrim().GetName()} ({kind})")
            return None
        for entry in surface.GetInputs():
            if entry.HasConnectedSource():
                self._declared.add(entry.GetBaseName())
        self._declared.use("diffuseColor", "emissiveColor")
        diffuse = self._source(surface, "diffuseColor", GREY)
        return Appearance(
            diffuse, self._source(surface, "emissiveColor", BLACK), self._cutoff(surface, diffuse)
        )

    def _source(self, shader: Any, name: str, default: Colour) -> Source:
        attribute = _producer(shader, name)
        if attribute is None:
            return Source(default)
        if not _is_output(attribute):
            value = attribute.Get(self._time)
            return Source(default if value is None else _colour(value))
        node = _shader(attribute)
        kind = node.GetShaderId()
        if kind == "UsdUVTexture":
            return Source(default, self._image(node))
        if kind in ("UsdPrimvarReader_float3", "UsdPrimvarReader_vector"):
            return Source(default, primvar=self._text(node, "varname") or None)
        self._declared.add(f"shader {kind}")
        return Source(default)

    def _image(self, texture: Any) -> Image | None:
        producer = _producer(texture, "file")
        asset = None if producer is None else producer.Get(self._time)
        if asset is None or not asset.path:
            return None
        s, t = (WRAPS.get(self._text(texture, name), "repeat") for name in ("wrapS", "wrapT"))
        scale, bias = (
            tuple(float(part) for part in self._value(texture, name) or default)
            for name, default in zip(("scale", "bias"), UNCHANGED, strict=True)
        )
        primvar, transform = self._coordinates(texture)
        return Image(
            str(asset.resolvedPath or asset.path),
            _layer_folder(producer),
            (s, t),
            (scale, bias),
            self._text(texture, "sourceColorSpace") == "raw",
            primvar,
            transform,
        )

    def _coordinates(self, texture: Any) -> tuple[str, tuple[float, ...]]:
        """Return the primvar of a texture's coordinates, and the transform of its UsdTransform2d nodes."""
        matrix = np.eye(3)
        node, name = texture, "st"
        for _ in range(100):  # a network may contain a cycle
            attribute = _producer(node, name)
            if attribute is None or not _is_output(attribute):
                break
            node = _shader(attribute)
            if node.GetShaderId() == "UsdTransform2d":
                matrix = matrix @ self._transform(node)
                name = "in"
                continue
            if str(node.GetShaderId()).startswith("UsdPrimvarReader"):
                return self._text(node, "varname") or "st", tuple(matrix[:2].ravel().tolist())
            self._declared.add(f"shader {node.GetShaderId()}")
            break
        return "st", tuple(matrix[:2].ravel().tolist())

    def _transform(self, node: Any) -> NDArray[np.float64]:
        """Return the (3, 3) matrix of a UsdTransform2d: scale, then rotate, then translate."""
        angle = math.radians(float(self._value(node, "rotation") or 0))
        scale, move = self._value(node, "scale") or (1, 1), self._value(node, "translation")
        cosine, sine = math.cos(angle), math.sin(angle)
        matrix = np.array([[cosine, -sine, 0], [sine, cosine, 0], [0, 0, 1]])
        matrix[:, :2] *= np.array([float(scale[0]), float(scale[1])])
        matrix[:2, 2] = (0, 0) if move is None else (float(move[0]), float(move[1]))
        return matrix

    def _cutoff(self, surface: Any, diffuse: Source) -> float | None:
        """Return the alpha below which texels of the diffuse image are holes."""
        attribute = _producer(surface, "opacity")
        if attribute is None:
            return None
        if not _is_output(attribute):
            value = attribute.Get(self._time)
            if value is not None and value < 1:
                self._declared.add("opacity")
            return None
        texture = _shader(attribute)
        is_alpha = attribute.GetName() == "outputs:a" and texture.GetShaderId() == "UsdUVTexture"
        if not is_alpha or diffuse.image is None or self._image(texture) != diffuse.image:
            return None
        self._declared.use("opacity")
        return float(self._value(surface, "opacityThreshold") or BLEND_CUTOFF)

    def _value(self, shader: Any, name: str) -> Any:
        attribute = _producer(shader, name)
        return None if attribute is None or _is_output(attribute) else attribute.Get(self._time)

    def _text(self, shader: Any, name: str) -> str:
        value = self._value(shader, name)
        return "" if value is None else str(value)


def _producer(shader: Any, name: str) -> Any:
    """Return the attribute that gives a shader's input its value, or None."""
    entry = shader.GetInput(name)
    attributes = entry.GetValueProducingAttributes() if entry else ()
    return attributes[0] if attributes else None


def _is_output(attribute: Any) -> bool:
    from pxr import UsdShade

    return bool(UsdShade.Utils.GetType(attribute.GetName()) == UsdShade.AttributeType.Output)


def _shader(attribute: Any) -> Any:
    from pxr import UsdShade

    return UsdShade.Shader(attribute.GetPrim())


def _colour(value: Any) -> Colour:
    red, green, blue = (float(part) for part in value)
    return red, green, blue


def _layer_folder(attribute: Any) -> str | None:
    """Return the folder of the layer with an attribute's value."""
    stack = attribute.GetPropertyStack()
    path = stack[0].layer.realPath if stack else ""
    return str(Path(path).parent) if path and "[" not in path else None


def build_materials(
    appearances: Iterable[Appearance], stage: Any, siblings: Siblings, declared: Declared
) -> tuple[dict[Appearance, tuple[Material, Image | None]], list[str]]:
    """Return the material of each appearance with its image, and notes about images. Raises ScanRejectedError."""
    notes: list[str] = []
    distinct = list(dict.fromkeys(appearances))

    def build(sources: dict[Appearance, Source]) -> dict[Appearance, tuple[Material, Image | None]]:
        images = dict.fromkeys(source.image for source in sources.values() if source.image)
        decoded, image_notes = decode_images(
            {image.asset: partial(_open_image, stage, siblings, image) for image in images},
            in_child=True,
        )
        notes.extend(image_notes)
        textures = {
            image: _adjust_colours(decoded[image.asset], image)
            for image in images
            if image.asset in decoded
        }
        materials: dict[Appearance, tuple[Material, Image | None]] = {}
        for appearance, source in sources.items():
            texture = textures.get(source.image) if source.image else None
            if texture is None or source.image is None:
                tint = tuple(np.clip(source.value, 0, 1).tolist())
                materials[appearance] = (Material(None, (*tint, 1.0), captured=False), None)
            else:
                cutoff = appearance.alpha_cutoff
                material = Material(texture, wrap=source.image.wrap, alpha_cutoff=cutoff)
                materials[appearance] = (material, source.image)
        return materials

    materials = build({each: each.diffuse for each in distinct})
    emitting = {each: each.emission for each in distinct if each.emission != Source(BLACK)}
    dark = {
        each: source
        for each, source in emitting.items()
        if each.diffuse.primvar is None and is_black(materials[each][0])
    }
    for each, (material, image) in build(dark).items():
        materials[each] = (Material(material.image, material.tint, material.wrap), image)
    if len(dark) < len(emitting):
        declared.add("emissiveColor")
    return materials, list(dict.fromkeys(notes))


def _adjust_colours(texels: NDArray[np.uint8], image: Image) -> NDArray[np.uint8]:
    """Return an image with the scale, bias and colour space of its texture applied, (h, w, 4)."""
    if image.levels == UNCHANGED and not image.is_raw:
        return texels
    level = np.arange(256, dtype=np.uint8)
    graded = texels.copy()
    for channel, (scale, bias) in enumerate(zip(*image.levels, strict=True)):
        if channel == 3:
            table = np.clip(np.rint(level * scale + 255 * bias), 0, 255).astype(np.uint8)
        else:
            light = level / 255 if image.is_raw else to_linear(level)
            table = to_srgb(light * scale + bias)
        graded[..., channel] = table[texels[..., channel]]
    return graded


def _open_image(stage: Any, siblings: Siblings, image: Image) -> EncodedImage:
    """Open an image in the stage's package or folder; raise ImageError if it is missing or elsewhere."""
    from pxr import Ar

    asset, root = image.asset, siblings.folder
    if "<UDIM>" in asset:
        raise ImageError(
            f"{short_repr(Path(asset).name)} has tiles (UDIM), which are not supported"
        )
    if asset.startswith(f"{stage.GetRootLayer().realPath}["):  # in the package
        opened = Ar.GetResolver().OpenAsset(Ar.ResolvedPath(asset))
        if not opened:
            raise ImageError(f"{short_repr(asset)} does not exist")
        return EncodedImage.of(bytes(opened.GetBuffer()), asset)
    if Path(asset).is_file() and not is_inside(Path(asset), root):
        raise ImageError(f"{short_repr(os.path.relpath(asset, root))} is outside the scan's folder")
    folder = Path(image.folder or root)
    return EncodedImage.of(siblings.read(asset, folder if is_inside(folder, root) else root), asset)
