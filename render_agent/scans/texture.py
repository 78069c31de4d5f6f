"""Mesh textures: images mapped onto faces, and the materials that use them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
Wrap = Literal["repeat", "clamp", "mirror"]


@dataclass(frozen=True, eq=False)
class Material:
    """Appearance of the faces with one material."""

    image: NDArray[np.uint8] | None
    """Texture image, (h, w, 4) uint8 sRGB with alpha; None for faces with vertex colours."""
    tint: tuple[float, float, float, float] = (1.0, 1.0, 1.0, 1.0)
    """Base colour, RGBA from 0 to 1 in linear light, multiplied with the image. Without an image it is already
    included in the vertex colours.
    """
    wrap: tuple[Wrap, Wrap] = ("repeat", "repeat")
    """Wrap mode beyond the image, horizontally and vertically."""
    alpha_cutoff: float | None = None
    """Texels with a lower alpha (0 to 1, without the tint's alpha) are holes; None for no holes."""
    captured: bool = True
    """True if the colours were captured or baked with their lighting, so they must not be shaded."""


@dataclass(frozen=True, eq=False)
class Texture:
    uv: NDArray[np.float32]
    """(n, 2) float32 texture coordinates of the vertices, (0, 0) at the top left corner and (1, 1) at the
    bottom right corner of the image.
    """
    face_materials: NDArray[np.int32]  # (m,) int32, the material index of each face
    materials: tuple[Material, ...]
    vertex_tints: NDArray[np.uint8] | None = None
    """(n, 3) uint8, sRGB vertex colours, multiplied with the image in linear light; or None."""

    def kept(self, vertices: NDArray[np.bool_], faces: NDArray[np.bool_]) -> Texture:
        """Return the texture reduced to the marked vertices, (n,) bool, and faces, (m,) bool."""
        tints = None if self.vertex_tints is None else self.vertex_tints[vertices]
        return replace(
            self,
            uv=self.uv[vertices],
            face_materials=self.face_materials[faces],
            vertex_tints=tints,
        )

    @property
    def has_images(self) -> bool:
        """True if any material has an image."""
        return any(part.image is not None for part in self.materials)

    @property
    def bytes(self) -> int:
        """Memory used by the arrays, in bytes. An image shared by several materials counts once."""
        images = {id(part.image): part.image for part in self.materials}
        image_bytes = [image.nbytes for image in images.values() if image is not None]
        tints = 0 if self.vertex_tints is None else self.vertex_tints.nbytes
        return self.uv.nbytes + self.face_materials.nbytes + tints + sum(image_bytes)


def sample_bilinear(
    image: NDArray[np.uint8], uv: NDArray[np.floating[Any]], wrap: tuple[Wrap, Wrap]
) -> FloatArray:
    """Sample an image, (h, w, 4), bilinearly at texture coordinates, (k, 2); return (k, 4) from 0 to 255."""
    height, width = image.shape[:2]
    x, y = (
        wrap_coordinates(np.asarray(uv[:, axis], np.float64), kind) * side - 0.5
        for axis, kind, side in ((0, wrap[0], width), (1, wrap[1], height))
    )
    left, top = np.floor(x), np.floor(y)
    right_share, lower_share = (x - left)[:, None], (y - top)[:, None]
    columns = [_edge(left.astype(np.int64) + step, width, wrap[0]) for step in (0, 1)]
    rows = [_edge(top.astype(np.int64) + step, height, wrap[1]) for step in (0, 1)]
    upper, lower = (
        image[row, columns[0]] * (1 - right_share) + image[row, columns[1]] * right_share
        for row in rows
    )
    result: FloatArray = upper * (1 - lower_share) + lower * lower_share
    return result


def wrap_coordinates(places: FloatArray, wrap: Wrap) -> FloatArray:
    """Return texture coordinates along one axis, (k,), wrapped to 0 to 1."""
    if wrap == "clamp":
        return np.asarray(np.clip(places, 0, 1), np.float64)
    if wrap == "mirror":
        return np.asarray(1 - np.abs(np.mod(places, 2) - 1), np.float64)
    fractions: FloatArray = places - np.floor(places)
    return fractions


def _edge(index: NDArray[np.int64], size: int, wrap: Wrap) -> NDArray[np.int64]:
    """Return texel indices wrapped into the image. They may exceed it by one on either side."""
    return index % size if wrap == "repeat" else np.clip(index, 0, size - 1)
