"""Which part of a scene's surface belongs to which box, as seen from a place.

A piece of surface (a face with all its corners, or a point) belongs to a box that holds it, grown by
MARGIN. What the object touches does not: the floor under it, the wall behind it, the table that it
stands on. Such a surface lies along a side of the box and is seen through the box, from within that
side's plane; the object's own surface there is seen from beyond the plane. So what lies along a side
counts for a camera beyond that side alone. Of boxes that hold the same piece the smallest gets it,
as books are not the shelf that they stand in and a chair is not the table that it is pushed under;
boxes less than ALIKE times as large get it too, as a bed and the blanket all over it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from render_agent.camera import FloatArray, Vector
from render_agent.rooms.boxes import OrientedBox
from render_agent.scene.model import Scene

MARGIN = 0.02
"""Metres that a surface may lie outside of its box, as scans are bent and boxes are tight."""

SHELL = 0.02
"""Metres inside of a side in which a surface along it may still be what the object touches."""

THIN = 1 / 3
"""Of a box's thickness at the most: the front of a picture or of a rug lies in no back side's shell."""

PARALLEL = 0.7
"""A face lies along a side where the cosine of the angle between their normals is larger."""

ALIKE = 2.0
"""Boxes whose volumes differ by less than this factor share what lies in both."""

SIDES = np.array([1, 2, 4, 8, 16, 32], np.int16)
"""A bit for each side of a box: along its axes 0, 1, 2 the lower, then the upper ones."""


class Belonging:
    """Which pieces of surface lie in which of some boxes.

    corners: (p, c, 3) metres, the corners of each piece. normals: (p, 3) unit, None where pieces have
    none. Pieces that lie in the same boxes, along the same sides, form a group; group 0 lies in none.
    """

    def __init__(
        self, corners: NDArray[np.float32], normals: FloatArray | None, boxes: Sequence[OrientedBox]
    ) -> None:
        self.boxes = list(boxes)
        self.groups = np.zeros(len(corners) + 1, np.int32)
        """(p + 1,) the group of each piece; the last, which index -1 reads, is that of no piece."""
        rows: list[tuple[tuple[int, int], ...]] = [()]
        low, high = corners.min(axis=1), corners.max(axis=1)
        for number, box in enumerate(self.boxes):
            ends = box.grown(MARGIN).bounds
            near = np.flatnonzero(((low >= ends[0]) & (high <= ends[1])).all(axis=1))
            inside, sides = _sides(corners[near], None if normals is None else normals[near], box)
            found = near[inside]
            pairs = self.groups[found].astype(np.int64) * 64 + sides[inside]
            kinds, which = np.unique(pairs, return_inverse=True)
            self.groups[found] = len(rows) + which
            rows += [(*rows[int(kind) // 64], (number, int(kind) % 64)) for kind in kinds]
        self._sides = np.full((len(rows), len(self.boxes)), -1, np.int16)
        for group, row in enumerate(rows):
            for number, bits in row:
                self._sides[group, number] = bits
        self._volumes = np.array([float(box.size.prod()) for box in self.boxes])

    @classmethod
    def of(cls, scene: Scene, boxes: Sequence[OrientedBox]) -> Belonging:
        """Return which faces, or points of a cloud, of `scene` lie in which boxes."""
        if scene.faces is None:
            return cls(scene.points[:, None], None, boxes)
        corners = scene.points[scene.faces]
        normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        normals /= np.maximum(np.linalg.norm(normals, axis=1), 1e-20)[:, None]
        return cls(corners, normals, boxes)

    def seen_from(self, position: Vector) -> NDArray[np.bool_]:
        """Return which group counts for which box, (groups, boxes), from a place in metres."""
        hidden = np.array([_within(box, position) for box in self.boxes], np.int16)
        counts: NDArray[np.bool_] = (self._sides >= 0) & ((self._sides & hidden) == 0)
        if not counts.shape[1]:
            return counts
        volumes = np.where(counts, self._volumes, np.inf)
        counts &= volumes <= ALIKE * volumes.min(axis=1, keepdims=True)
        return counts

    def pieces(self, groups: NDArray[np.bool_]) -> NDArray[np.intp]:
        """Return the indices of the pieces in the marked groups, (groups,) bool."""
        return np.flatnonzero(groups[self.groups[:-1]])


def _sides(
    corners: NDArray[np.float32], normals: FloatArray | None, box: OrientedBox
) -> tuple[NDArray[np.bool_], NDArray[np.int16]]:
    """Return which pieces lie in the grown box, and the bits of the sides along which they lie."""
    local = (corners - box.centre) @ box.axes.T
    half = box.size / 2
    inside: NDArray[np.bool_] = np.all(np.abs(local) <= half + MARGIN, axis=(1, 2))
    shell = half - np.minimum(SHELL, THIN * box.size)
    along = np.concatenate([(local <= -shell).all(axis=1), (local >= shell).all(axis=1)], axis=1)
    if normals is not None:
        parallel = np.abs(normals @ box.axes.T) > PARALLEL
        along &= np.concatenate([parallel, parallel], axis=1)
    return inside, np.where(along, SIDES, 0).sum(axis=1).astype(np.int16)


def _within(box: OrientedBox, position: Vector) -> int:
    """Return the bits of the sides that a place lies within the planes of."""
    local = box.local(np.array(position)[None])[0]
    beyond = np.concatenate([local < -box.size / 2, local > box.size / 2])
    return int(SIDES[~beyond].sum())
