"""The texture of a mesh: pictures laid over its faces, and how each material uses them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

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
        held = [picture for picture in pictures.values() if picture is not None]
        tints = [] if self.vertex_tints is None else [self.vertex_tints]
        return sum(array.nbytes for array in (self.uv, self.face_materials, *held, *tints))
