"""The Gaussians of a 3D Gaussian splat: what each point of such a scene has besides a place and a colour."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Gaussians:
    """The Gaussians of a splat, one a point of its scene.

    scales: (n, 3) float32, metres, the standard deviations along each Gaussian's own axes.
    rotations: (n, 4) float32, unit quaternions (w, x, y, z) that turn its own axes into the scene's.
    opacities: (n,) float32, 0 to 1. harmonics: (n, k, 3) float32, k of 1, 4, 9 or 16, the
    coefficients of the real spherical harmonics of red, green and blue, the constant one first.
    harmonics_axes: (3, 3) float64, takes a direction of the scene to the axes of the harmonics.
    """

    scales: NDArray[np.float32]
    rotations: NDArray[np.float32]
    opacities: NDArray[np.float32]
    harmonics: NDArray[np.float32]
    harmonics_axes: NDArray[np.float64]

    def where(self, mask: NDArray[np.bool_]) -> Gaussians:
        """Return the Gaussians that `mask`, (n,) bool, marks."""
        return replace(
            self,
            scales=self.scales[mask],
            rotations=self.rotations[mask],
            opacities=self.opacities[mask],
            harmonics=self.harmonics[mask],
        )

    @property
    def bytes(self) -> int:
        """The memory that its arrays take."""
        arrays = (self.scales, self.rotations, self.opacities, self.harmonics)
        return sum(array.nbytes for array in arrays)
