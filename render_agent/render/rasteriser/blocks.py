"""A scene cut into blocks of neighbouring primitives, and which blocks a camera can see.

Faces and points are sorted along a Morton curve and cut into blocks of equal count. A block has a
bounding box; what lies outside the picture is culled by it, and the rest is drawn from front to
back, so that what is hidden can be skipped too. A mesh's block holds its own copies of the
vertices that its faces use, side by side in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.geometry.camera import FloatArray
from render_agent.render.base import sound_faces
from render_agent.render.projection import Projection
from render_agent.render.rasteriser.kernels import kernel
from render_agent.render.rasteriser.mipmaps import Texturing, texturing
from render_agent.scene.model import Scene

FACES_PER_BLOCK = 256
POINTS_PER_BLOCK = 512


@dataclass(frozen=True, eq=False)
class MeshBlocks:
    """A mesh in blocks.

    vertices: (3, v) float32, metres, world frame, block by block. colours: (v, 3) uint8. faces:
    (m, 3) int32 into vertices. order: (m,) int32, the scene's index of each face. first_vertex:
    (b + 1,) int32, where each block's vertices begin. boxes: (b, 6) float64, lowest and highest
    corner of each block, metres. pages: the pictures on the faces.
    """

    vertices: NDArray[np.float32]
    colours: NDArray[np.uint8]
    faces: NDArray[np.int32]
    order: NDArray[np.int32]
    first_vertex: NDArray[np.int32]
    boxes: FloatArray
    pages: Texturing


@dataclass(frozen=True, eq=False)
class CloudBlocks:
    """A point cloud in blocks of POINTS_PER_BLOCK points (the last may have fewer).

    points: (3, n) float32, metres, world frame. colours: (n, 3) uint8. order: (n,) int32, the
    scene's index of each point. radii: (b,) float64, metres, half the side of the squares that a
    block's points are drawn as. boxes: (b, 6) float64, metres, around these squares.
    """

    points: NDArray[np.float32]
    colours: NDArray[np.uint8]
    order: NDArray[np.int32]
    radii: FloatArray
    boxes: FloatArray


@dataclass(frozen=True, eq=False)
class Visible:
    """The blocks that may be seen, nearest first.

    blocks: (k,) int64. rectangles: (k, 4) int32, first and last-plus-one row and column that each
    may touch. nearest: (k,) float64, the largest key (see zbuffer) that it may have.
    """

    blocks: NDArray[np.int64]
    rectangles: NDArray[np.int32]
    nearest: FloatArray


def mesh_blocks(scene: Scene) -> MeshBlocks:
    """Return the mesh of `scene` in blocks. Raises RenderError as `sound_faces` does."""
    points = np.ascontiguousarray(scene.points, np.float32)
    faces = sound_faces(scene)
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
    """Return the points of `scene` in blocks."""
    points = np.ascontiguousarray(scene.points, np.float32)
    low, scale = grid_of(scene.bounds)
    order = sorted_order(point_codes(points, low, scale))
    points = np.ascontiguousarray(points[order].T)
    count = points.shape[1]
    starts = np.append(np.arange(0, count, POINTS_PER_BLOCK), count).astype(np.int32)
    boxes = _boxes(points, starts)
    radii = splat_radii(points, starts, boxes)
    reach = radii[:, None] * np.sqrt(2)
    around = np.hstack([boxes[:, :3] - reach, boxes[:, 3:] + reach])
    return CloudBlocks(points, scene.colours[order], order, radii, around)


def visible(boxes: FloatArray, projected: Projection, width: int, height: int) -> Visible:
    """Return which of the boxes, (b, 6) metres, world frame, may be seen, nearest first."""
    blocks, rectangles, nearest = _cull(
        boxes, projected.matrix, projected.perspective, projected.near, width, height
    )
    order = np.argsort(-nearest, kind="stable")
    return Visible(blocks[order], rectangles[order], nearest[order])


@kernel
def _gather(faces: Any, order: Any, count: Any, size: Any) -> Any:
    """Give each block its own vertices, numbered in the order of use.

    Returns the sorted faces (m, 3) int32 with their new vertex indices, the old index of every new
    vertex (v,) int32, and where each block's vertices begin (b + 1,) int32.
    """
    total = len(order)
    blocks = (total + size - 1) // size
    renumbered = np.empty((total, 3), np.int32)
    sources = np.empty(total * 3, np.int32)
    first = np.zeros(blocks + 1, np.int32)
    owner = np.full(count, -1, np.int32)
    number = np.empty(count, np.int32)
    used = 0
    for i in range(total):
        block = i // size
        for corner in range(3):
            vertex = faces[order[i], corner]
            if owner[vertex] != block:
                owner[vertex] = block
                number[vertex] = used
                sources[used] = vertex
                used += 1
            renumbered[i, corner] = number[vertex]
        first[block + 1] = used
    return renumbered, sources[:used].copy(), first


@kernel
def _boxes(points: Any, starts: Any) -> Any:
    """Return the bounding box, (b, 6) float64, of each run of points (3, n)."""
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
    """Return the boxes that reach into the view: index, rectangle and nearest key of each."""
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


CELLS_PER_AXIS = 1024
"""Cells of the curve along each axis; ten bits an axis make a code of thirty bits."""


@kernel
def _spread(value: Any) -> Any:
    """Return the ten bits of `value` with two zeros between each."""
    value = (value | (value << 16)) & 0x030000FF
    value = (value | (value << 8)) & 0x0300F00F
    value = (value | (value << 4)) & 0x030C30C3
    return (value | (value << 2)) & 0x09249249


@kernel
def _code(x: Any, y: Any, z: Any, low: Any, scale: Any) -> Any:
    top = CELLS_PER_AXIS - 1.0
    i = np.int64(min(max((x - low[0]) * scale[0], 0.0), top))
    j = np.int64(min(max((y - low[1]) * scale[1], 0.0), top))
    k = np.int64(min(max((z - low[2]) * scale[2], 0.0), top))
    return np.uint32(_spread(i) | (_spread(j) << 1) | (_spread(k) << 2))


@kernel
def point_codes(points: Any, low: Any, scale: Any) -> Any:
    """Return the Morton codes, (n,) uint32, of points (n, 3) in metres."""
    codes = np.empty(len(points), np.uint32)
    for i in range(len(points)):
        codes[i] = _code(points[i, 0], points[i, 1], points[i, 2], low, scale)
    return codes


@kernel
def face_codes(points: Any, faces: Any, low: Any, scale: Any) -> Any:
    """Return the Morton codes, (m,) uint32, of the centroids of faces (m, 3)."""
    codes = np.empty(len(faces), np.uint32)
    third = 1.0 / 3.0
    for i in range(len(faces)):
        a, b, c = faces[i, 0], faces[i, 1], faces[i, 2]
        x = (points[a, 0] + points[b, 0] + points[c, 0]) * third
        y = (points[a, 1] + points[b, 1] + points[c, 1]) * third
        z = (points[a, 2] + points[b, 2] + points[c, 2]) * third
        codes[i] = _code(x, y, z, low, scale)
    return codes


def sorted_order(codes: NDArray[np.uint32]) -> NDArray[np.int32]:
    """Return the stable order, (n,) int32, that sorts codes."""
    # numpy sorts whole numbers faster than it finds a stable order
    keys = codes.astype(np.uint64) << np.uint64(32) | np.arange(len(codes), dtype=np.uint64)
    keys.sort()
    return (keys & np.uint64(0xFFFFFFFF)).astype(np.int32)


def grid_of(bounds: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the lowest corner, (3,) metres, and the cells per metre, (3,), of a curve over `bounds`."""
    size = np.maximum(bounds[1] - bounds[0], 1e-6)
    return np.ascontiguousarray(bounds[0], float), CELLS_PER_AXIS / np.full(3, size.max())


NEIGHBOUR = 8
SAMPLES_PER_BLOCK = 9
WINDOW_BLOCKS = 32
"""Blocks on either side along the curve in which a sample's neighbours are looked for."""

RADIUS_SPACINGS = 1.0
"""Half the side of a splat, in distances to the eighth neighbour."""

ALONE_METRES = 0.02
"""Half the side, in metres, of the splats of a cloud with too few points to have a spacing."""

SPREAD_RATIO = 4.0
"""A block's splats are at most this much larger or smaller than those of the middle block …"""

FAR_RATIO = 16.0
FAR_METRES = 0.12
"""… or up to FAR_RATIO larger where they stay below FAR_METRES: walls far from the scanner are so thin."""


def splat_radii(
    points: NDArray[np.float32], starts: NDArray[np.int32], boxes: FloatArray
) -> FloatArray:
    """Return half the side of each block's splats, (b,) metres.

    points: (3, n) metres, in blocks that begin at starts, (b + 1,), with boxes (b, 6). Scans are
    dense near the scanner and thin far from it, so each block has its own radius; one with stray
    points only is kept near to the others.
    """
    if points.shape[1] <= NEIGHBOUR:
        return np.full(len(starts) - 1, ALONE_METRES)
    distances = _block_spacings(points, starts, boxes)
    known = distances[distances > 0]
    if not len(known):
        return np.full(len(starts) - 1, ALONE_METRES)
    middle = float(np.median(known))
    most = max(SPREAD_RATIO * middle, min(FAR_RATIO * middle, FAR_METRES))
    radii: FloatArray = RADIUS_SPACINGS * np.clip(distances, middle / SPREAD_RATIO, most)
    return radii


@kernel
def _gap(box: Any, x: Any, y: Any, z: Any) -> Any:
    """Return the squared distance from a point to a box, in square metres."""
    dx = max(box[0] - x, 0.0, x - box[3])
    dy = max(box[1] - y, 0.0, y - box[4])
    dz = max(box[2] - z, 0.0, z - box[5])
    return dx * dx + dy * dy + dz * dz


@kernel
def _search(points: Any, start: Any, stop: Any, x: Any, y: Any, z: Any, best: Any) -> None:
    """Insert the squared distances of points start … stop-1 into `best`, ascending."""
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
    """Return each block's median distance, (b,) metres, from a sample to its eighth neighbour."""
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
            for other in range(
                max(0, block - WINDOW_BLOCKS), min(blocks, block + WINDOW_BLOCKS + 1)
            ):
                if other != block and _gap(boxes[other], x, y, z) < best[-1]:
                    _search(points, starts[other], starts[other + 1], x, y, z, best)
            squared_distances[sample] = best[-1]
        spacings[block] = np.sqrt(np.median(squared_distances))
    return spacings
