"""A scene: the surface of a scan in metres, z up."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.file_frame import FileFrame
from render_agent.scans.gaussians import MIRROR, Gaussians
from render_agent.scans.texture import Texture


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
    texture: pictures on the faces of a mesh; `colours` are then their colours at the vertices.
    gaussians: the shapes of a splat's points; `colours` are then those of its constant harmonics.
    notes: what was assumed when it was read (its unit, its upright axis, a missing alignment), a sentence each.
    frame: which axis pointed up in its file, and how long the file's unit was.
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
    texture: Texture | None = None
    gaussians: Gaussians | None = None
    notes: tuple[str, ...] = ()
    frame: FileFrame = field(default_factory=FileFrame)

    @property
    def is_cloud(self) -> bool:
        """Whether the scene has points only."""
        return self.faces is None

    @property
    def description(self) -> tuple[str, ...]:
        """The scan in sentences: its kind and size, the frame of its file, and the notes."""
        count = f"{len(self.points):,}"
        kind = f"a cloud of {count} points"
        if self.gaussians is not None:
            kind = f"a splat of {count} Gaussians"
        elif self.faces is not None:
            textured = "a textured mesh" if self.texture is not None else "a mesh"
            kind = f"{textured} of {len(self.faces):,} faces"
        return (f"{kind}, read in {self.frame.unit} with {self.frame.up} up", *self.notes)

    @property
    def bytes(self) -> int:
        """The memory that its arrays take."""
        arrays: list[NDArray[Any]] = [self.points, self.colours]
        arrays += [] if self.faces is None else [self.faces]
        further = [part.bytes for part in (self.texture, self.gaussians) if part is not None]
        return sum(array.nbytes for array in arrays) + sum(further)

    def mirrored(self) -> Scene:
        """Return its mirror image, left for right, about the upright plane x = the middle of its bounds.

        Bounds, floor, ceiling and origin stay what they are; `mirrored_at` is where the plane lies.
        The mirror image of a mirror image is the scene itself, but for the rounding of float32.
        """
        low, high = (float(corner[0]) for corner in self.bounds)
        middle = (low + high) / 2 if self.mirrored_at is None else self.mirrored_at
        points = self.points.copy()
        points[:, 0] = 2 * middle - points[:, 0].astype(np.float64)
        # A mirrored face is seen from the same side only where its corners are named the other way round.
        faces = None if self.faces is None else np.ascontiguousarray(self.faces[:, [0, 2, 1]])
        at = middle if self.mirrored_at is None else None
        gaussians = None if self.gaussians is None else self.gaussians.turned(MIRROR)
        return replace(self, points=points, faces=faces, mirrored_at=at, gaussians=gaussians)
