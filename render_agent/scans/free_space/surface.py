"""Splits a scan's surface into small pieces, and samples it densely enough to measure clearances."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.scene import Scene
from render_agent.scans.solid import surface_points

FACES_PER_CHUNK = 1 << 19  # faces cut at a time, to bound memory

Corners = NDArray[np.float32]


def face_corners(points: NDArray[np.float32], faces: NDArray[Any]) -> Iterator[Corners]:
    """Yield the corners of the faces, (k, 3, 3) metres, in chunks."""
    for first in range(0, len(faces), FACES_PER_CHUNK):
        yield points[faces[first : first + FACES_PER_CHUNK]]


def areas_and_normals(corners: Corners) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the areas, (k,) in square metres, and unit normals, (k, 3), of triangles (k, 3, 3)."""
    cross = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    double = np.linalg.norm(cross, axis=1)
    return double / 2, cross / np.maximum(double, np.float32(1e-20))[:, None]


def longest_edges(corners: Corners) -> tuple[NDArray[np.float32], NDArray[np.intp]]:
    """Return the length of each triangle's longest edge, (k,), and the index of the corner where it starts."""
    a, b, c = np.ascontiguousarray(corners.transpose(1, 2, 0))
    first, second, third = (
        squares[0] + squares[1] + squares[2]
        for squares in ((b - a) ** 2, (c - b) ** 2, (a - c) ** 2)
    )
    longer = np.maximum(first, second)
    longest = np.where(third > longer, 2, (second > first).astype(np.intp))
    return np.sqrt(np.maximum(longer, third)), longest


@dataclass(frozen=True, eq=False)
class Pieces:
    corners: Corners  # (p, 3, 3) metres
    new: NDArray[np.float32]
    """Vertices added by cutting, (v, 3) metres; those on an edge shared by two triangles appear twice."""


def bisect_edges(
    corners: Corners,  # triangles, (k, 3, 3) metres
    max_edge: float,  # maximum edge length in metres
    max_pieces: int,
    # (2, 3) metres; pieces that are completely outside are dropped
    box: NDArray[np.float64] | None = None,
) -> Pieces | None:
    """Bisect triangles across their longest edge until no edge is longer than `max_edge`; None beyond `max_pieces`."""
    pieces = [corners[:0]]
    new = [corners[:0, 0]]
    count = 0
    while len(corners):
        if box is not None:
            high, low = corners.max(axis=1), corners.min(axis=1)
            corners = corners[((high >= box[0]) & (low <= box[1])).all(axis=1)]
        lengths, first = longest_edges(corners)
        short = lengths <= max_edge
        pieces.append(corners.take(np.flatnonzero(short), axis=0))
        long = np.flatnonzero(~short)
        count += len(corners) - len(long)
        if count + 2 * len(long) > max_pieces:
            return None
        corners, middles = _bisect(corners, long, first)
        new.append(middles)
    return Pieces(np.concatenate(pieces), np.concatenate(new))


def _bisect(
    corners: Corners,  # all triangles, (n, 3, 3)
    indices: NDArray[np.intp],  # indices of the triangles to bisect, (k,)
    first: NDArray[np.intp],  # corner at which the edge to cut starts, (n,)
) -> tuple[Corners, NDArray[np.float32]]:
    """Bisect triangles. Return the halves, (2k, 3, 3), and the new vertices, (k, 3)."""
    start, flat = first.take(indices), corners.reshape(-1, 3)
    a, b, c = (flat.take(3 * indices + (start + turn) % 3, axis=0) for turn in range(3))
    middle = (a + b) / np.float32(2)
    halves = np.empty((2, len(a), 3, 3), np.float32)
    halves[0, :, 0], halves[0, :, 1], halves[0, :, 2] = a, middle, c
    halves[1, :, 0], halves[1, :, 1], halves[1, :, 2] = middle, b, c
    return halves.reshape(-1, 3, 3), np.asarray(middle, np.float32)


def first_per_cell(points: NDArray[Any], cell: float) -> NDArray[np.intp]:
    """Return the index of the first point, (n, 3) metres, in every occupied cell of `cell` metres."""
    if not len(points):
        return np.empty(0, np.intp)
    keys, bits = cell_keys(points, cell), len(points).bit_length()
    if int(keys.max()).bit_length() + bits > 63:
        return np.unique(keys, return_index=True)[1]
    # Faster than np.unique, because numpy sorts integers faster than it finds a stable order.
    numbered_keys = keys << bits | np.arange(len(points))
    numbered_keys.sort()
    first = np.flatnonzero(np.diff(numbered_keys >> bits, prepend=-1))
    return numbered_keys[first] & ((1 << bits) - 1)


def cell_keys(points: NDArray[Any], cell: float) -> NDArray[np.int64]:
    """Return an integer key for the cubic cell that contains each point, (n, 3) metres."""
    keys = np.zeros(len(points), np.int64)
    for axis_values in points.T:
        # At most 21 bits per axis. Keys repeat if points are spread over more cells.
        steps = ((axis_values - axis_values.min()) / cell).astype(np.int64) & 0x1FFFFF
        keys = keys << int(steps.max()).bit_length() | steps
    return keys


def inside_box(points: NDArray[Any], box: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which points, (n, 3) metres, are inside a box, (2, 3) metres."""
    axes = zip(points.T, *box, strict=True)
    inside: NDArray[np.bool_] = np.logical_and.reduce(
        [(x >= low) & (x <= high) for x, low, high in axes]
    )
    return inside


# Maximum edge length of the pieces whose corners are the samples. A place 0.2 m from a face is then at most 0.205 m
# from a sample.
SPACING_METRES = 0.08

CELL_METRES = 0.01  # one sample is kept per cell of this size
MAX_SAMPLES = 2_000_000  # spacing and cells grow until a scene needs no more samples than this
COARSER_FACTOR = 1.5  # growth of spacing and cells per attempt
PROBE_SHARE = 1.5  # points, per sample, that show that cells are too small
MARGIN_METRES = 0.5  # surface farther than this outside the bounds is out of reach


def surface_samples(scene: Scene, max_samples: int = MAX_SAMPLES) -> NDArray[np.float32]:
    """Return samples of the surface within reach, (s, 3) metres; empty if all of it is out of reach."""
    box = scene.bounds + np.array([[-MARGIN_METRES], [MARGIN_METRES]])
    spacing, cell = SPACING_METRES, CELL_METRES
    is_cloud = scene.faces is None and scene.gaussians is None
    samples = None
    while True:
        if samples is None or not is_cloud:  # the points of a cloud do not depend on the spacing
            samples = _piece_vertices(scene, box, spacing, 2 * max_samples)
        if samples is not None and not _needs_more(samples, cell, max_samples):
            indices = first_per_cell(samples, cell)
            if len(indices) <= max_samples:
                return samples[indices]
        spacing *= COARSER_FACTOR
        cell *= COARSER_FACTOR


def _needs_more(points: NDArray[np.float32], cell: float, max_cells: int) -> bool:
    """Return True if a part of the points alone, (n, 3) metres, is in more than `max_cells` cells.

    Its cost is bounded, so that a large cloud is not sorted for every size of cell.
    """
    step = len(points) / (PROBE_SHARE * max_cells)
    if step <= 1:
        return False
    part = np.arange(0, len(points), step).astype(np.intp)
    lowest = points.argmin(axis=0)  # where the cells start
    return len(first_per_cell(points[np.append(part, lowest)], cell)) > max_cells


def _piece_vertices(
    scene: Scene, box: NDArray[np.float64], spacing: float, max_samples: int
) -> NDArray[np.float32] | None:
    """Return the vertices of all pieces in the box, (s, 3), shared ones perhaps twice; None if there are too many."""
    points, faces = surface_points(scene, spacing), scene.faces
    inside = inside_box(points, box)
    if faces is None:
        samples: NDArray[np.float32] = points[inside]
        return samples
    is_used = np.zeros(len(points), bool)
    is_used[faces] = True
    parts, count = [points[is_used & inside]], 0
    for first in range(0, len(faces), FACES_PER_CHUNK):
        corners = points[faces[first : first + FACES_PER_CHUNK]]
        pieces = bisect_edges(
            corners[longest_edges(corners)[0] > spacing],
            spacing,
            max_samples - count,
            None if inside.all() else box,
        )
        if pieces is None:
            return None
        count += len(pieces.corners)
        parts.append(pieces.new)
    samples = np.concatenate(parts)
    if inside.all():
        return samples
    samples_inside: NDArray[np.float32] = samples[inside_box(samples, box)]
    return samples_inside
