"""The Gaussians of a 3D Gaussian splat: what each point of such a scene has besides a place and a colour."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

CONSTANT_HARMONIC = 0.28209479177387814
"""The spherical harmonic of degree 0: a colour is 0.5 more than the coefficients times the harmonics."""

MIRROR = np.diag([-1.0, 1.0, 1.0])
"""Takes a direction to its mirror image, left for right."""


@dataclass(frozen=True, eq=False)
class Gaussians:
    """The Gaussians of a splat, one a point of its scene.

    scales: (n, 3) float32, metres, the standard deviations along each Gaussian's own axes.
    rotations: (n, 4) float32, unit quaternions (w, x, y, z) that turn its own axes into the scene's.
    opacities: (n,) float32, 0 to 1. harmonics: (n, k, 3) float32, k of 1, 4, 9 or 16, the
    coefficients of the real spherical harmonics of red, green and blue, the constant one first.
    harmonics_axes: (3, 3) float64, takes a direction of the scene to the axes of the harmonics. solid: (n,)
    bool, which are surface and no floaters (see `solid.py`); None where nobody has looked yet.
    """

    scales: NDArray[np.float32]
    rotations: NDArray[np.float32]
    opacities: NDArray[np.float32]
    harmonics: NDArray[np.float32]
    harmonics_axes: NDArray[np.float64]
    solid: NDArray[np.bool_] | None = None

    def where(self, mask: NDArray[np.bool_] | NDArray[np.intp]) -> Gaussians:
        """Return the Gaussians that `mask`, (n,) bool, marks, or those of some indices, (k,)."""
        return replace(
            self,
            scales=self.scales[mask],
            rotations=self.rotations[mask],
            opacities=self.opacities[mask],
            harmonics=self.harmonics[mask],
            solid=None if self.solid is None else self.solid[mask],
        )

    def turned(self, turn: NDArray[np.float64]) -> Gaussians:
        """Return the Gaussians of a scene that was turned by `turn`, (3, 3), a rotation or a mirroring."""
        from scipy.spatial.transform import Rotation

        if np.linalg.det(turn) < 0:
            # a mirrored ellipsoid is an ellipsoid turned the other way about the mirror's two axes
            flipped = self.rotations * np.array([1, 1, -1, -1], np.float32)
            axes = self.harmonics_axes @ MIRROR
            return replace(self, rotations=flipped, harmonics_axes=axes).turned(turn @ MIRROR)
        x, y, z, w = Rotation.from_matrix(turn).as_quat()
        product = np.array([[w, -x, -y, -z], [x, w, -z, y], [y, z, w, -x], [z, -y, x, w]])
        return replace(
            self,
            rotations=self.rotations @ product.T.astype(np.float32),
            harmonics_axes=self.harmonics_axes @ turn.T,
        )

    def scaled(self, factor: float) -> Gaussians:
        """Return the Gaussians of a scene that was made larger by `factor`."""
        return replace(self, scales=self.scales * np.float32(factor))

    @property
    def arrays(self) -> tuple[NDArray[np.float32], ...]:
        """The arrays with a row for each Gaussian: scales, rotations, opacities, harmonics."""
        return self.scales, self.rotations, self.opacities, self.harmonics

    @property
    def bytes(self) -> int:
        """The memory that its arrays take."""
        return sum(array.nbytes for array in self.arrays)
