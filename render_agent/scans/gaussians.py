"""The Gaussians of a 3D Gaussian splat: the shape, opacity and view-dependent colour of each point."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

# spherical harmonic of degree 0; colour = 0.5 + coefficients · harmonics
CONSTANT_HARMONIC = 0.28209479177387814
MIRROR = np.diag([-1.0, 1.0, 1.0])  # mirrors a direction left for right


@dataclass(frozen=True, eq=False)
class Gaussians:
    """The Gaussians of a splat, one per point of its scene."""

    scales: NDArray[np.float32]
    """(n, 3) float32, standard deviations in metres along each Gaussian's own axes."""
    rotations: NDArray[np.float32]
    """(n, 4) float32, unit quaternions (w, x, y, z) from the Gaussian's axes to the scene's."""
    opacities: NDArray[np.float32]  # (n,) float32, 0 to 1
    harmonics: NDArray[np.float32]
    """(n, k, 3) float32 with k = 1, 4, 9 or 16, coefficients of the real spherical harmonics for red, green
    and blue, the constant one first.
    """
    harmonics_axes: NDArray[np.float64]
    """(3, 3) float64, maps a direction in the scene to the frame of the harmonics."""
    solid: NDArray[np.bool_] | None = None
    """(n,) bool, True for surface, False for floaters (see `solid.py`); None if not computed."""

    def where(self, mask: NDArray[np.bool_] | NDArray[np.intp]) -> Gaussians:
        """Return the Gaussians selected by a mask, (n,) bool, or by indices, (k,)."""
        return replace(
            self,
            scales=self.scales[mask],
            rotations=self.rotations[mask],
            opacities=self.opacities[mask],
            harmonics=self.harmonics[mask],
            solid=None if self.solid is None else self.solid[mask],
        )

    def turned(self, turn: NDArray[np.float64]) -> Gaussians:
        """Return the Gaussians of a scene transformed by `turn`, (3, 3), a rotation or reflection."""
        from scipy.spatial.transform import Rotation

        if np.linalg.det(turn) < 0:
            # Mirroring an ellipsoid equals reversing its rotation about the two axes in the mirror plane.
            rotations = self.rotations * np.array([1, 1, -1, -1], np.float32)
            axes = self.harmonics_axes @ MIRROR
            return replace(self, rotations=rotations, harmonics_axes=axes).turned(turn @ MIRROR)
        x, y, z, w = Rotation.from_matrix(turn).as_quat()
        product = np.array([[w, -x, -y, -z], [x, w, -z, y], [y, z, w, -x], [z, -y, x, w]])
        return replace(
            self,
            rotations=self.rotations @ product.T.astype(np.float32),
            harmonics_axes=self.harmonics_axes @ turn.T,
        )

    def scaled(self, factor: float) -> Gaussians:
        return replace(self, scales=self.scales * np.float32(factor))

    @property
    def arrays(self) -> tuple[NDArray[np.float32], ...]:
        """The per-Gaussian arrays: scales, rotations, opacities, harmonics."""
        return self.scales, self.rotations, self.opacities, self.harmonics

    @property
    def bytes(self) -> int:
        """Memory used by the arrays, in bytes."""
        return sum(array.nbytes for array in self.arrays)
