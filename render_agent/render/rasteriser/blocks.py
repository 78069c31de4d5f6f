"""Divides a scene into blocks of neighbouring primitives, and finds the blocks that a camera can see.

Faces and points are sorted along a Morton curve and divided into blocks of equal count. Blocks whose bounding box is
outside the image are culled. The others are drawn front to back, so that occluded blocks can be skipped as well. A mesh
block has its own copies of the vertices that its faces use, contiguous in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.render.projection import Projection
from render_agent.render.rasteriser.kernels import kernel
from render_agent.render.rasteriser.mipmaps import Texturing, texturing
from render_agent.render.rasteriser.morton import face_codes, grid_of, point_codes, sorted_order
from render_agent.render.renderer import valid_faces
from render_agent.scans.camera import FloatArray
from render_agent.scans.scene import Scene

FACES_PER_BLOCK = 256
POINTS_PER_BLOCK = 512

# The size of splats is chosen block by block from the distances between neighbours.
NEIGHBOUR = 8  # the spacing is the distance to this nearest neighbour
SAMPLES_PER_BLOCK = 9
WINDOW_BLOCKS = 32  # blocks on either side along the curve in which neighbours are searched
RADIUS_SPACINGS = 1.0  # half the side of a splat in spacings
FALLBACK_METRES = 0.02  # half the side of splats in clouds with too few points to measure a spacing

# Splat sizes of a block differ from those of the median block by a factor of at most SPREAD_RATIO. They may be up to
# FAR_RATIO times larger if they stay below FAR_METRES, because walls far from the scanner are sparse.
SPREAD_RATIO = 4.0
FAR_RATIO = 16.0
FAR_METRES = 0.12


@dataclass(frozen=True, eq=False)
class MeshBlocks:
    vertices: NDArray[np.float32]  # (3, v) float32, metres, world frame, block by block
    colours: NDArray[np.uint8]  # (v, 3) uint8
    faces: NDArray[np.int32]  # (m, 3) int32 indices into `vertices`
    order: NDArray[np.int32]  # (m,) int32, the scene's index of each face
    first_vertex: NDArray[np.int32]  # (b + 1,) int32, where each block's vertices start
    boxes: FloatArray  # (b, 6) float64, lowest and highest corner of each block, metres
    pages: Texturing


@dataclass(frozen=True, eq=False)
class CloudBlocks:
    """A point cloud in blocks of POINTS_PER_BLOCK points (the last may have fewer)."""

    points: NDArray[np.float32]  # (3, n) float32, metres, world frame
    colours: NDArray[np.uint8]  # (n, 3) uint8
    order: NDArray[np.int32]  # (n,) int32, the scene's index of each point
    radii: FloatArray
    """(b,) float64, metres, half the side of the squares that a block's points are drawn as."""
    boxes: FloatArray  # (b, 6) float64, bounding boxes of these squares, metres


@dataclass(frozen=True, eq=False)
class Visible:
    """The potentially visible blocks, nearest first."""

    blocks: NDArray[np.int64]  # (k,) int64
    rectangles: NDArray[np.int32]
    """(k, 4) int32, first and last-plus-one row and column that each may touch."""
    nearest: FloatArray  # (k,) float64, the largest key (see zbuffer) that each may have


def mesh_blocks(scene: Scene) -> MeshBlocks:
    """Divide the mesh of a scene into blocks. Raises RenderError like `valid_faces`."""
    points = np.ascontiguousarray(scene.points, np.float32)
    faces = valid_faces(scene)
    low, scale = grid_of(scene.bounds)
    order = sorted_order(face_codes(points, faces, low, scale))
    faces, sources, first_vertex = _gather(faces, order, len(points), FACES_PER_BLOCK)
    vertices = np.ascontiguousarray(points[sources].T)
    return MeshBlocks(
        vertices,
        scene.colours[sources],
        faces,
        order,
        first_vertex,
        _boxes(vertices, first_vertex),
        texturing(scene.texture, sources, order),
    )


def cloud_blocks(scene: Scene) -> CloudBlocks:
    points = np.ascontiguousarray(scene.points, np.float32)
    low, scale = grid_of(scene.bounds)
    order = sorted_order(point_codes(points, low, scale))
    points = np.ascontiguousarray(points[order].T)
    count = points.shape[1]
    starts = np.append(np.arange(0, count, POINTS_PER_BLOCK), count).astype(np.int32)
    boxes = _boxes(points, starts)
    radii = _splat_radii(points, starts, boxes)
    reach = radii[:, None] * np.sqrt(2)
    padded_boxes = np.hstack([boxes[:, :3] - reach, boxes[:, 3:] + reach])
    return CloudBlocks(points, scene.colours[order], order, radii, padded_boxes)


def _splat_radii(
    points: NDArray[np.float32],  # (3, n) metres, in block order
    starts: NDArray[np.int32],
    boxes: FloatArray,  # bounding box of each block, (b, 6)
) -> FloatArray:
    """Return half the side of each block's splats, (b,) metres.

    Scans are dense near the scanner and sparse far from it, so each block has its own radius. Other blocks limit the
    radius of blocks with only stray points.
    """
    has_neighbours = points.shape[1] > NEIGHBOUR
    distances = _block_spacings(points, starts, boxes) if has_neighbours else np.zeros(len(boxes))
    valid = distances[distances > 0]
    if not len(valid):
        return np.full(len(boxes), FALLBACK_METRES)
    middle = float(np.median(valid))
    max_radius = max(SPREAD_RATIO * middle, min(FAR_RATIO * middle, FAR_METRES))
    radii: FloatArray = RADIUS_SPACINGS * np.clip(distances, middle / SPREAD_RATIO, max_radius)
    return radii


def visible_boxes(boxes: FloatArray, view: Projection, width: int, height: int) -> Visible:
    """Return the potentially visible boxes out of (b, 6) in metres, world frame, nearest first."""
    blocks, rectangles, nearest = _cull(
        boxes, view.matrix, view.perspective, view.near, width, height
    )
    order = np.argsort(-nearest, kind="stable")
    return Visible(blocks[order], rectangles[order], nearest[order])


@kernel
def _gather(faces: Any, order: Any, count: Any, size: Any) -> Any:
    """Give each block its own vertices, numbered in order of use; return the new faces, (m, 3) int32, the old index of
    every new
    vertex, (v,) int32, and where each block's vertices start, (b + 1,) int32.
    """
    total = len(order)
    blocks = (total + size - 1) // size
    new_faces = np.empty((total, 3), np.int32)
    sources = np.empty(total * 3, np.int32)
    first_vertex = np.zeros(blocks + 1, np.int32)
    owner = np.full(count, -1, np.int32)
    number = np.empty(count, np.int32)
    num_vertices = 0
    for i in range(total):
        block = i // size
        for corner in range(3):
            vertex = faces[order[i], corner]
            if owner[vertex] != block:
                owner[vertex] = block
                number[vertex] = num_vertices
                sources[num_vertices] = vertex
                num_vertices += 1
            new_faces[i, corner] = number[vertex]
        first_vertex[block + 1] = num_vertices
    return new_faces, sources[:num_vertices].copy(), first_vertex


@kernel
def _boxes(points: Any, starts: Any) -> Any:
    """Return the bounding box of each run of points, (b, 6) float64; points are (3, n)."""
    boxes = np.empty((len(starts) - 1, 6), np.float64)
    for block in range(len(starts) - 1):
        for axis in range(3):
            low = np.inf
            high = -np.inf
            for i in range(starts[block], starts[block + 1]):
                value = np.float64(points[axis, i])
                low = min(low, value)
                high = max(high, value)
            boxes[block, axis] = low
            boxes[block, axis + 3] = high
    return boxes


@kernel
def _cull(boxes: Any, matrix: Any, perspective: Any, near: Any, width: Any, height: Any) -> Any:
    """Return the index, rectangle and nearest key of each box that is potentially visible."""
    blocks = np.empty(len(boxes), np.int64)
    rectangles = np.empty((len(boxes), 4), np.int32)
    nearest = np.empty(len(boxes), np.float64)
    visible_count = 0
    for block in range(len(boxes)):
        left = right = above = below = behind = 0
        u0 = v0 = depth0 = np.inf
        u1 = v1 = -np.inf
        for corner in range(8):
            x = boxes[block, 3 * (corner & 1)]
            y = boxes[block, 3 * (corner >> 1 & 1) + 1]
            z = boxes[block, 3 * (corner >> 2) + 2]
            hu = matrix[0, 0] * x + matrix[0, 1] * y + matrix[0, 2] * z + matrix[0, 3]
            hv = matrix[1, 0] * x + matrix[1, 1] * y + matrix[1, 2] * z + matrix[1, 3]
            hw = matrix[2, 0] * x + matrix[2, 1] * y + matrix[2, 2] * z + matrix[2, 3]
            depth = matrix[3, 0] * x + matrix[3, 1] * y + matrix[3, 2] * z + matrix[3, 3]
            left += hu < 0.0
            right += hu > width * hw
            above += hv < 0.0
            below += hv > height * hw
            behind += depth < near
            depth0 = min(depth0, depth)
            u0, u1 = min(u0, hu / hw), max(u1, hu / hw)
            v0, v1 = min(v0, hv / hw), max(v1, hv / hw)
        if left == 8 or right == 8 or above == 8 or below == 8 or behind == 8:
            continue
        if behind and perspective:
            u0 = v0 = 0.0
            u1, v1 = np.float64(width), np.float64(height)
        depth0 = max(depth0, near)
        blocks[visible_count] = block
        rectangles[visible_count, 0] = np.int32(min(max(v0 - 1.0, 0.0), np.float64(height)))
        rectangles[visible_count, 1] = np.int32(min(max(v1 + 2.0, 0.0), np.float64(height)))
        rectangles[visible_count, 2] = np.int32(min(max(u0 - 1.0, 0.0), np.float64(width)))
        rectangles[visible_count, 3] = np.int32(min(max(u1 + 2.0, 0.0), np.float64(width)))
        nearest[visible_count] = 1.0 / depth0 if perspective else -depth0
        visible_count += 1
    return blocks[:visible_count], rectangles[:visible_count], nearest[:visible_count]


@kernel
def _gap(box: Any, x: Any, y: Any, z: Any) -> Any:
    """Return the squared distance from a point to a box, in square metres."""
    dx = max(box[0] - x, 0.0, x - box[3])
    dy = max(box[1] - y, 0.0, y - box[4])
    dz = max(box[2] - z, 0.0, z - box[5])
    return dx * dx + dy * dy + dz * dz


@kernel
def _search(points: Any, start: Any, stop: Any, x: Any, y: Any, z: Any, best: Any) -> None:
    """Insert the squared distances of points start … stop-1 into `best`, in ascending order."""
    for i in range(start, stop):
        dx, dy, dz = points[0, i] - x, points[1, i] - y, points[2, i] - z
        distance = dx * dx + dy * dy + dz * dz
        if distance >= best[-1]:
            continue
        slot = len(best) - 1
        while slot > 0 and best[slot - 1] > distance:
            best[slot] = best[slot - 1]
            slot -= 1
        best[slot] = distance


@kernel
def _block_spacings(points: Any, starts: Any, boxes: Any) -> Any:
    """Return each block's median distance from a sample to its eighth neighbour, (b,) metres."""
    blocks = len(starts) - 1
    spacings = np.empty(blocks, np.float64)
    squared_distances = np.empty(SAMPLES_PER_BLOCK, np.float64)
    best = np.empty(NEIGHBOUR + 1, np.float64)
    for block in range(blocks):
        size = starts[block + 1] - starts[block]
        for sample in range(SAMPLES_PER_BLOCK):
            i = starts[block] + size * (2 * sample + 1) // (2 * SAMPLES_PER_BLOCK)
            x, y, z = np.float64(points[0, i]), np.float64(points[1, i]), np.float64(points[2, i])
            best[:] = np.inf
            _search(points, starts[block], starts[block + 1], x, y, z, best)
            for neighbour_block in range(
                max(0, block - WINDOW_BLOCKS), min(blocks, block + WINDOW_BLOCKS + 1)
            ):
                if neighbour_block != block and _gap(boxes[neighbour_block], x, y, z) < best[-1]:
                    _search(
                        points, starts[neighbour_block], starts[neighbour_block + 1], x, y, z, best
                    )
            squared_distances[sample] = best[-1]
        spacings[block] = np.sqrt(np.median(squared_distances))
    return spacings
