"""Builds a cloud from parts: no more in memory than is kept, colours from whatever the file has."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.formats.cleaning import FARTHEST_METRES, Scan
from render_agent.scans.formats.intensity import stretched
from render_agent.scans.formats.point_cloud import (
    COARSER_FACTOR,
    MAX_POINTS,
    SAMPLED,
    cell_means,
)

MOST_POINTS_A_BYTE = 8
"""Points in a byte of a file: a point's place takes at least a bit, however well it is compressed."""

CELLS_ACROSS = 2000
"""Cells along the widest side of a cloud that is thinned for the first time."""

SPREAD = (0.02, 0.98)
"""Quantiles between which a cloud counts as spread."""

UNKNOWN_GREY = 128.0
"""Grey of points of which neither colour nor intensity is known."""

LARGEST = np.float32(1e30)
"""What colours and intensities are cut off at, so that sums of them are numbers."""


class CloudBuilder:
    """Points that come in parts, of which at most about `most` are kept: then they are means of cells.

    bits: of the colours as they come; 8, 16, or 0 for numbers from 0 to 1. Of 16 bits that never exceed
    255, 8 are meant.
    """

    def __init__(self, bits: int = 8, most: int = MAX_POINTS) -> None:
        self.bits = bits
        self.most = most
        self._parts: list[tuple[NDArray[np.float64], NDArray[np.float32]]] = []
        self._count = 0
        self._cell = 0.0

    def add(
        self,
        points: NDArray[Any],
        colours: NDArray[Any] | None = None,
        intensity: NDArray[Any] | None = None,
    ) -> None:
        """Add points (k, 3) in any unit, their colours (k, 3) and intensities (k,) where there are some."""
        with np.errstate(invalid="ignore"):
            good = (np.abs(points) < FARTHEST_METRES / 1e-3).all(axis=1)
        values = np.full((int(good.sum()), 4), np.nan, np.float32)
        if colours is not None:
            values[:, :3] = np.clip(colours[good], 0, LARGEST)
        if intensity is not None:
            values[:, 3] = np.clip(intensity[good], -LARGEST, LARGEST)
        self._parts.append((points[good].astype(np.float64), values))
        self._count += len(values)
        if self._count > self.most:
            self._thin()

    def scan(self) -> Scan:
        """Return what was gathered."""
        points, values = self._joined()
        self._parts = []
        return Scan(points, self._colours(values))

    def _joined(self) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
        if len(self._parts) == 1:
            return self._parts[0]
        nothing = np.empty((0, 3)), np.empty((0, 4), np.float32)
        points, values = zip(nothing, *self._parts, strict=True)
        return np.concatenate(points), np.concatenate(values)

    def _thin(self) -> None:
        """Put means of cells in the place of the points, until only half as many are left as may be.

        Half, so that it need not be done again as soon as the next part comes.
        """
        points, values = self._joined()
        self._parts = []
        if not self._cell:
            low, high = np.quantile(points[:: max(1, len(points) // SAMPLED)], SPREAD, axis=0)
            self._cell = max(float((high - low).max()) / CELLS_ACROSS, 1e-6)
        points, values = cell_means(points, values, self._cell)
        while len(points) > self.most // 2:
            self._cell *= COARSER_FACTOR
            points, values = cell_means(points, values, self._cell)
        self._parts = [(points, values)]
        self._count = len(points)

    def _colours(self, values: NDArray[np.float32]) -> NDArray[np.uint8] | None:
        """Return colours, (n, 3): measured ones, else greys of the intensities; None where there is neither."""
        rgb = values[:, :3]
        top = float(np.nanmax(rgb, initial=0.0)) if len(rgb) else 0.0
        known: NDArray[np.bool_] = np.zeros(len(values), bool)
        if top > 0:  # else it is a field that nobody filled
            known = np.asarray(~np.isnan(rgb).any(axis=1))
        grey = stretched(values[:, 3])
        if not known.any() and grey is None:
            return None
        if known.all():
            colours = rgb
        else:
            fallback = np.full(len(values), UNKNOWN_GREY) if grey is None else grey
            colours = np.where(known[:, None], rgb, 0)
        shades = self._bytes(colours, top)
        if not known.all():
            shades[~known] = np.rint(fallback[~known])[:, None]
        return shades

    def _bytes(self, colours: NDArray[np.float32], top: float) -> NDArray[np.uint8]:
        if self.bits == 0:
            scaled = np.rint(np.clip(colours, 0, 1) * 255)
        elif self.bits == 16 and top > 255:
            # Writers multiply 8 bits by 256 or by 257: the upper 8 are right either way.
            scaled = np.clip(np.rint(colours), 0, 65535) // 256
        else:
            scaled = np.clip(np.rint(colours), 0, 255)
        return scaled.astype(np.uint8)
