"""A scene in memory: the surface of a scan, in metres with z up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.file_frame import FileFrame
from render_agent.scans.gaussians import MIRROR, Gaussians
from render_agent.scans.texture import Texture
from render_agent.util.display import count_noun


@dataclass(frozen=True, eq=False)
class Scene:
    """A scan as the rest of the program uses it. Immutable, compared by identity, shared by questions."""

    id: str
    points: NDArray[np.float32]  # (n, 3) float32, metres, world frame (z up), all finite
    colours: NDArray[np.uint8]
    """(n, 3) uint8, sRGB. For a textured mesh these are the texture's colours at the vertices; for a splat,
    those of the constant harmonics.
    """
    faces: NDArray[np.int32] | None
    """(m, 3) int32 indices into `points`; None for a point cloud or a splat."""
    floor: float  # height of the floor in metres; with several storeys, of the lowest one
    ceiling: float
    """Height of the ceiling above this floor in metres; the top of the bounds if none was scanned."""
    bounds: NDArray[np.float64]
    """(2, 3) float64, lowest and highest corner of the room in metres, without outliers."""
    source: Path | None = None  # file that the scene was read from; None for a scene made in memory
    origin: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Offset in metres that was subtracted from the file's coordinates (z up) to keep float32 precise."""
    mirrored_at: float | None = None
    """x of the plane, in metres, at which the scene was mirrored (after subtracting `origin`); None if it was
    not mirrored.
    """
    texture: Texture | None = None
    gaussians: Gaussians | None = None
    normals: NDArray[np.int8] | None = None
    """(n, 3) int8, unit normals of arbitrary sign times 127, of a cloud whose colours were not captured."""
    notes: tuple[str, ...] = ()
    """Remarks about how the file was read (such as a missing alignment), one sentence each."""
    frame: FileFrame = field(default_factory=FileFrame)
    """How the coordinates of the file were interpreted."""
    files: Mapping[str, str | None] = field(default_factory=dict)
    """Path -> SHA-256 of the other files that its reader opened; None for files that do not exist."""
    cut_from: int | None = None  # number of faces before they were subdivided to shade them

    @property
    def is_cloud(self) -> bool:
        """True if the scene has no faces (a point cloud or a splat)."""
        return self.faces is None

    @property
    def description(self) -> tuple[str, ...]:
        """Description of the scan: its kind, size and frame, then the notes."""
        count = f"{len(self.points):,}"
        kind = f"point cloud, {count} points"
        if self.gaussians is not None:
            kind = f"splat, {count} Gaussians"
        elif self.faces is not None:
            mesh_kind = "textured mesh" if self.texture is not None else "mesh"
            kind = f"{mesh_kind}, {count_noun(self.cut_from or len(self.faces), 'face')}"
        return (f"{kind} ({self.frame.description})", *self.notes)

    @property
    def bytes(self) -> int:
        """Memory used by the arrays, in bytes."""
        arrays: list[NDArray[Any]] = [self.points, self.colours]
        arrays += [array for array in (self.faces, self.normals) if array is not None]
        extras = [part.bytes for part in (self.texture, self.gaussians) if part is not None]
        return sum(array.nbytes for array in arrays) + sum(extras)

    def mirrored(self) -> Scene:
        """Return the scene mirrored, left for right, at the vertical plane through the middle of its x range.

        Bounds, floor, ceiling and origin are unchanged; `mirrored_at` is set to the plane. Mirroring twice restores
        the scene except for float32 rounding.
        """
        low, high = (float(corner[0]) for corner in self.bounds)
        middle = (low + high) / 2 if self.mirrored_at is None else self.mirrored_at
        points = self.points.copy()
        points[:, 0] = 2 * middle - points[:, 0].astype(np.float64)
        # Mirroring reverses the winding. Swap two corners so that faces keep pointing to the same side.
        faces = None if self.faces is None else np.ascontiguousarray(self.faces[:, [0, 2, 1]])
        at = middle if self.mirrored_at is None else None
        gaussians = None if self.gaussians is None else self.gaussians.turned(MIRROR)
        normals = None if self.normals is None else self.normals * np.array([-1, 1, 1], np.int8)
        return replace(
            self,
            points=points,
            faces=faces,
            mirrored_at=at,
            gaussians=gaussians,
            normals=normals,
        )
