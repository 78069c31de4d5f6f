"""A scene: the surface of a scan in metres, z up."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Scene:
    """A scan as every other part of the program sees it; compared by identity, shared by its questions.

    points: (n, 3) float32, metres, z up, all finite. colours: (n, 3) uint8, RGB as shown on a
    screen (no gamma to undo). faces: (m, 3) int32 indices into points, or None for a point cloud.
    floor, ceiling: heights in metres (a scan without a ceiling has the top of its points).
    bounds: (2, 3) float64, lowest and highest corner of the room in metres, without outliers.
    source: the file it was read from, or None for a scene made in memory. origin: metres, what was
    taken off the file's coordinates (z up) because they lay too far from zero for float32. mirrored_at:
    metres, the x that it was mirrored at (left for right) after all that, None where it was not.
    """

    id: str
    points: NDArray[np.float32]
    colours: NDArray[np.uint8]
    faces: NDArray[np.int32] | None
    floor: float
    ceiling: float
    bounds: NDArray[np.float64]
    source: Path | None = None
    origin: tuple[float, float, float] = (0.0, 0.0, 0.0)
    mirrored_at: float | None = None

    @property
    def is_cloud(self) -> bool:
        """Whether the scene has points only."""
        return self.faces is None

    @property
    def bytes(self) -> int:
        """The memory that its arrays take."""
        arrays: list[NDArray[Any]] = [self.points, self.colours]
        return sum(array.nbytes for array in arrays) + (
            0 if self.faces is None else self.faces.nbytes
        )
