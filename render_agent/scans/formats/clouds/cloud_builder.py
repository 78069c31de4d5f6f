"""Build a cloud from chunks with bounded memory, and colour it from whatever the file provides."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.formats.cleaning import MAX_COORDINATE_METRES, Scan, invalid_note
from render_agent.scans.formats.colours import colour_bits, colour_bytes, stretch_contrast
from render_agent.scans.formats.point_cloud import (
    COARSER_FACTOR,
    MAX_POINTS,
    SAMPLED_POINTS,
    cell_means,
)

CELLS_PER_SIDE = 2000  # cells along the widest side when a cloud is first thinned
EXTENT_QUANTILES = (0.02, 0.98)  # quantiles that define the extent of a cloud, to ignore outliers
UNKNOWN_GREY = 128.0  # grey of points with neither colour nor intensity
MAX_VALUE = np.float32(1e30)  # limit of colours and intensities, so that sums stay finite


class CloudBuilder:
    """Collects points chunk by chunk; beyond about `max_points`, they are replaced by cell means.

    `bits` per colour channel: 8, 16 (8 if nothing exceeds 255), 0 for values from 0 to 1, or None to judge by the maximum.
    """

    def __init__(self, bits: int | None = 8, max_points: int = MAX_POINTS) -> None:
        self.bits = bits
        self.max_points = max_points
        self._parts: list[tuple[NDArray[np.float64], NDArray[np.float32]]] = []
        self._count = 0
        self._cell = 0.0
        self._top = 0.0  # maximum of the colours
        self._num_points = self._num_invalid = 0

    def add(
        self,
        points: NDArray[Any],
        colours: NDArray[Any] | None = None,
        intensity: NDArray[Any] | None = None,
    ) -> None:
        """Add points, (k, 3) in any unit, with colours, (k, 3), and intensities, (k,), if available."""
        with np.errstate(invalid="ignore"):
            is_valid = (np.abs(points) < MAX_COORDINATE_METRES / 1e-3).all(axis=1)
        values = np.full((int(is_valid.sum()), 4), np.nan, np.float32)
        self._num_points += len(is_valid)
        self._num_invalid += len(is_valid) - len(values)
        if colours is not None:
            values[:, :3] = np.clip(colours[is_valid], 0, MAX_VALUE)
            self._top = max(self._top, float(np.nan_to_num(values[:, :3]).max(initial=0.0)))
        if intensity is not None:
            values[:, 3] = np.clip(intensity[is_valid], -MAX_VALUE, MAX_VALUE)
        self._parts.append((points[is_valid].astype(np.float64), values))
        self._count += len(values)
        if self._count > self.max_points:
            self._thin()

    def scan(self) -> Scan:
        points, values = self._join()
        self._parts = []
        notes = invalid_note(self._num_invalid, self._num_points)
        return Scan(points, self._colours(values), notes=notes)

    def _join(self) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
        if len(self._parts) == 1:
            return self._parts[0]
        empty = np.empty((0, 3)), np.empty((0, 4), np.float32)
        points, values = zip(empty, *self._parts, strict=True)
        return np.concatenate(points), np.concatenate(values)

    def _thin(self) -> None:
        """Replace points by cell means until half of the maximum remains, so that the next chunk fits."""
        points, values = self._join()
        self._parts = []
        if not self._cell:
            low, high = np.quantile(
                points[:: max(1, len(points) // SAMPLED_POINTS)], EXTENT_QUANTILES, axis=0
            )
            self._cell = max(float((high - low).max()) / CELLS_PER_SIDE, 1e-6)
        points, values = cell_means(points, values, self._cell)
        while len(points) > self.max_points // 2:
            self._cell *= COARSER_FACTOR
            points, values = cell_means(points, values, self._cell)
        self._parts = [(points, values)]
        self._count = len(points)

    def _colours(self, values: NDArray[np.float32]) -> NDArray[np.uint8] | None:
        """Return colours, (n, 3): measured colours, else intensities as grey; None if there are neither."""
        rgb = values[:, :3]
        has_colour: NDArray[np.bool_] = np.zeros(len(values), bool)
        if self._top > 0:  # otherwise the file has colour fields that were never filled
            has_colour = np.asarray(~np.isnan(rgb).any(axis=1))
        grey = stretch_contrast(values[:, 3])
        if not has_colour.any() and grey is None:
            return None
        if has_colour.all():
            colours = rgb
        else:
            fallback = np.full(len(values), UNKNOWN_GREY) if grey is None else grey
            colours = np.where(has_colour[:, None], rgb, 0)
        bits = self.bits
        if bits is None or bits == 16:
            bits = colour_bits(self._top, are_integers=bits == 16)
        levels = colour_bytes(colours, bits)
        if not has_colour.all():
            levels[~has_colour] = np.rint(fallback[~has_colour])[:, None]
        return levels
