"""The texture of a mesh: pictures laid over its faces, and how each material uses them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
Wrap = Literal["repeat", "clamp", "mirror"]


@dataclass(frozen=True, eq=False)
class Material:
    """What the faces of one material look like.

    picture: (h, w, 4) uint8, RGBA as shown on a screen; None for faces that have the colours of their
    vertices. tint: the material's own colour, RGBA from 0 to 1, linear light, that multiplies the
    picture; without a picture it is in the vertices' colours already. wrap: what lies beyond
    the picture's left and right, and above and below it. alpha_cutoff: texels of a lower alpha (0 to 1,
    the tint's alpha left out) are holes; None where there are none. captured: the colours were measured
    or baked with their light, so that nothing may shade them.
    """

    picture: NDArray[np.uint8] | None
    tint: tuple[float, float, float, float] = (1.0, 1.0, 1.0, 1.0)
    wrap: tuple[Wrap, Wrap] = ("repeat", "repeat")
    alpha_cutoff: float | None = None
    captured: bool = True


@dataclass(frozen=True, eq=False)
class Texture:
    """Pictures on a mesh.

    uv: (n, 2) float32, where each vertex lies in its picture: right and down from the top left corner,
    1 is its width and height. face_materials: (m,) int32, the index of each face's material.
    vertex_tints: (n, 3) uint8, vertex colours as on a screen whose light multiplies the picture's, or None.
    """

    uv: NDArray[np.float32]
    face_materials: NDArray[np.int32]
    materials: tuple[Material, ...]
    vertex_tints: NDArray[np.uint8] | None = None

    def kept(self, vertices: NDArray[np.bool_], faces: NDArray[np.bool_]) -> Texture:
        """Return the texture of a mesh of which the marked vertices, (n,), and faces, (m,), are left."""
        tints = None if self.vertex_tints is None else self.vertex_tints[vertices]
        return replace(
            self,
            uv=self.uv[vertices],
            face_materials=self.face_materials[faces],
            vertex_tints=tints,
        )

    @property
    def has_pictures(self) -> bool:
        """Whether any material has one."""
        return any(part.picture is not None for part in self.materials)

    @property
    def bytes(self) -> int:
        """The memory that its arrays take; a picture of several materials counts once."""
        pictures = {id(part.picture): part.picture for part in self.materials}
        held = [picture.nbytes for picture in pictures.values() if picture is not None]
        tints = 0 if self.vertex_tints is None else self.vertex_tints.nbytes
        return self.uv.nbytes + self.face_materials.nbytes + tints + sum(held)


def bilinear(
    picture: NDArray[np.uint8], uv: NDArray[np.floating[Any]], wrap: tuple[Wrap, Wrap]
) -> FloatArray:
    """Return the colours, (k, 4) of 0 to 255, of a picture, (h, w, 4), at places (k, 2)."""
    height, width = picture.shape[:2]
    x, y = (
        wrapped(np.asarray(uv[:, axis], np.float64), kind) * side - 0.5
        for axis, kind, side in ((0, wrap[0], width), (1, wrap[1], height))
    )
    left, top = np.floor(x), np.floor(y)
    right_share, lower_share = (x - left)[:, None], (y - top)[:, None]
    columns = [_edge(left.astype(np.int64) + step, width, wrap[0]) for step in (0, 1)]
    rows = [_edge(top.astype(np.int64) + step, height, wrap[1]) for step in (0, 1)]
    upper, lower = (
        picture[row, columns[0]] * (1 - right_share) + picture[row, columns[1]] * right_share
        for row in rows
    )
    blended: FloatArray = upper * (1 - lower_share) + lower * lower_share
    return blended


def wrapped(places: FloatArray, wrap: Wrap) -> FloatArray:
    """Return places along one side, (k,), moved into the picture, 0 to 1."""
    if wrap == "clamp":
        return np.asarray(np.clip(places, 0, 1), np.float64)
    if wrap == "mirror":
        return np.asarray(1 - np.abs(np.mod(places, 2) - 1), np.float64)
    turned: FloatArray = places - np.floor(places)
    return turned


def _edge(index: NDArray[np.int64], size: int, wrap: Wrap) -> NDArray[np.int64]:
    """Return texels' indices, of which the outermost may lie one beyond the picture, within it."""
    return index % size if wrap == "repeat" else np.clip(index, 0, size - 1)
