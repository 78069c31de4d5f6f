"""Draws triangles into a depth buffer.

For each pixel the buffer has a key that increases towards the camera (1 / depth in perspective, -depth in a map; both
are linear in the image) and the position of its triangle in block order. A triangle covers a pixel if the pixel's
centre is inside: in each row, from the left edge up to but excluding the right edge. Edges are computed from their
upper end downwards, so that two triangles with a common edge leave no gap, whatever their order. Equal keys go to the
face with the lower index in the scene. Colours are computed afterwards, once per pixel; see `face_colours`.

A band is a range of rows. Bands are drawn independently, so that threads share no pixels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from render_agent.render.rasteriser.kernels import inlined_kernel, kernel
from render_agent.render.rasteriser.mipmaps import (
    is_hole,
    texture_plane,
)

# Rows at least this wide are drawn with SIMD, which is slower for fewer pixels.
WIDE_PIXELS = 12


@kernel
def clear(keys: Any, nearest: Any, first_row: Any, last_row: Any) -> None:
    """Clear one band of the buffer."""
    for row in range(first_row, last_row):
        for column in range(keys.shape[1]):
            keys[row, column] = -np.inf
            nearest[row, column] = -1


@kernel
def is_hidden(keys: Any, rectangle: Any, first_row: Any, last_row: Any, key: Any) -> Any:
    """Return True if a block can be skipped in a band.

    This is the case if its rectangle (see Visible) does not overlap the band, or if all pixels there already show
    something nearer than `key`, the block's nearest possible key.
    """
    limit = np.float32(key + 1e-6 * abs(key))
    for row in range(max(rectangle[0], first_row), min(rectangle[1], last_row)):
        open_pixels = 0
        for column in range(rectangle[2], rectangle[3]):
            open_pixels += keys[row, column] <= limit
        if open_pixels:
            return False
    return True


@kernel
def _project(vertices: Any, first: Any, last: Any, m: Any, perspective: Any, rows: Any) -> Any:
    """Write u, v, key and depth of vertices first … last-1 to the rows of `rows`."""
    a0, a1, a2, a3 = m[0, 0], m[0, 1], m[0, 2], m[0, 3]
    b0, b1, b2, b3 = m[1, 0], m[1, 1], m[1, 2], m[1, 3]
    d0, d1, d2, d3 = m[3, 0], m[3, 1], m[3, 2], m[3, 3]
    for i in range(last - first):
        x = np.float64(vertices[0, first + i])
        y = np.float64(vertices[1, first + i])
        z = np.float64(vertices[2, first + i])
        depth = d0 * x + d1 * y + d2 * z + d3
        scale = 1.0 / depth if perspective else 1.0
        rows[0, i] = (a0 * x + a1 * y + a2 * z + a3) * scale
        rows[1, i] = (b0 * x + b1 * y + b2 * z + b3) * scale
        rows[2, i] = scale if perspective else -depth
        rows[3, i] = depth


@inlined_kernel
def _ordered(a: Any, b: Any, swap: Any) -> Any:
    return (b if swap else a), (a if swap else b)


@inlined_kernel
def _set_up(
    x0: Any, y0: Any, k0: Any, x1: Any, y1: Any, k1: Any, x2: Any, y2: Any, k2: Any,
    first_row: Any, last_row: Any, triangle: Any,
) -> Any:  # fmt: skip
    """Write a triangle with corners (pixel, key) to `triangle`, (SIZE,): its corners from the top of the image to the
    bottom, the slopes of its edges, its first and last-plus-one row, and twice its signed area.

    Branchless to avoid mispredictions: most triangles of a scan are too small to predict anything.
    """
    swap = y1 < y0
    x0, x1 = _ordered(x0, x1, swap)
    y0, y1 = _ordered(y0, y1, swap)
    k0, k1 = _ordered(k0, k1, swap)
    swap = y2 < y1
    x1, x2 = _ordered(x1, x2, swap)
    y1, y2 = _ordered(y1, y2, swap)
    k1, k2 = _ordered(k1, k2, swap)
    swap = y1 < y0
    x0, x1 = _ordered(x0, x1, swap)
    y0, y1 = _ordered(y0, y1, swap)
    k0, k1 = _ordered(k0, k1, swap)
    triangle[0], triangle[1], triangle[2] = x0, y0, k0
    triangle[3], triangle[4], triangle[5] = x1, y1, k1
    triangle[6], triangle[7], triangle[8] = x2, y2, k2
    triangle[9] = (x2 - x0) / (y2 - y0)
    triangle[10] = (x1 - x0) / (y1 - y0)
    triangle[11] = (x2 - x1) / (y2 - y1)
    triangle[12] = np.ceil(max(y0, np.float64(first_row)) - 0.5)
    area = (x1 - x0) * (y2 - y0) - (x2 - x0) * (y1 - y0)
    bottom = np.ceil(min(y2, np.float64(last_row)) - 0.5)
    triangle[13] = bottom if area != 0.0 else -1.0  # no rows
    triangle[14] = area


SIZE = 15  # numbers of a triangle that is set up


@inlined_kernel
def _columns(row: Any, triangle: Any, width: Any) -> Any:
    """Return the first and last-plus-one column that a triangle covers in a row."""
    y, x1, y1 = row + 0.5, triangle[3], triangle[4]
    is_upper = y < y1
    xa = triangle[0] + (y - triangle[1]) * triangle[9]
    xb = triangle[0] if is_upper else x1
    xb += (y - (triangle[1] if is_upper else y1)) * (triangle[10] if is_upper else triangle[11])
    return (
        np.int64(np.ceil(max(min(xa, xb), 0.0) - 0.5)),
        np.int64(np.ceil(min(max(xa, xb), np.float64(width)) - 0.5)),
    )


@kernel
def _fill_wide(
    start: Any, ku: Any, low: Any, high: Any, left: Any, face: Any, order: Any, keys: Any, nearest: Any
) -> None:  # fmt: skip
    """Draw a face into the pixels of a row from column `left` on, without branches, so that it is vectorised.

    `keys` and `nearest` are (n,), one entry per pixel.
    """
    ties = 0
    for i in range(len(keys)):
        key = np.float32(min(max(start + (left + i) * ku, low), high))
        old_key = keys[i]
        ties += key == old_key
        keys[i] = key if key > old_key else old_key
        nearest[i] = face if key > old_key else nearest[i]
    if ties:
        for i in range(len(keys)):
            key = np.float32(min(max(start + (left + i) * ku, low), high))
            if key == keys[i] and order[face] < order[nearest[i]]:
                nearest[i] = face


@inlined_kernel
def _fill(
    triangle: Any, face: Any, order: Any, keys: Any, nearest: Any, pages: Any, material: Any, plane: Any
) -> Any:  # fmt: skip
    """Draw a triangle that is set up.

    `material` is that of a face with holes, and `plane` its texture plane; otherwise `material` is -1.
    """
    x0, y0, k0 = triangle[0], triangle[1], triangle[2]
    x1, y1, k1 = triangle[3], triangle[4], triangle[5]
    x2, y2, k2 = triangle[6], triangle[7], triangle[8]
    low = min(k0, k1, k2)
    high = max(k0, k1, k2)
    ku = ((k1 - k0) * (y2 - y0) - (k2 - k0) * (y1 - y0)) / triangle[14]
    kv = ((k2 - k0) * (x1 - x0) - (k1 - k0) * (x2 - x0)) / triangle[14]
    for row in range(np.int64(triangle[12]), np.int64(triangle[13])):
        left, right = _columns(row, triangle, keys.shape[1])
        start = k0 + (row + 0.5 - y0) * kv + (0.5 - x0) * ku
        if material < 0 and right - left >= WIDE_PIXELS:
            _fill_wide(
                start, ku, low, high, left, face, order,
                keys[row, left:right], nearest[row, left:right],
            )  # fmt: skip
            continue
        for column in range(left, right):
            pixel = np.uint64(column)  # unsigned, so that it needs no check for negative indices
            key = np.float32(min(max(start + column * ku, low), high))
            old_key = keys[row, pixel]
            if key < old_key or (key == old_key and order[face] >= order[nearest[row, pixel]]):
                continue
            if material >= 0 and is_hole(pages, material, plane, column + 0.5, row + 0.5):
                continue
            keys[row, pixel] = key
            nearest[row, pixel] = face


@kernel
def _fill_around_holes(
    triangle: Any, face: Any, order: Any, keys: Any, nearest: Any, pages: Any, material: Any, plane: Any
) -> None:  # fmt: skip
    """Call `_fill` outside the loop over faces, which is faster without the code for holes."""
    _fill(triangle, face, order, keys, nearest, pages, material, plane)


@inlined_kernel
def _corner(vertices: Any, vertex: Any, m: Any) -> Any:
    """Return the homogeneous pixel (u w, v w, w) and the depth of a vertex."""
    x = np.float64(vertices[0, vertex])
    y = np.float64(vertices[1, vertex])
    z = np.float64(vertices[2, vertex])
    return (
        m[0, 0] * x + m[0, 1] * y + m[0, 2] * z + m[0, 3],
        m[1, 0] * x + m[1, 1] * y + m[1, 2] * z + m[1, 3],
        m[2, 0] * x + m[2, 1] * y + m[2, 2] * z + m[2, 3],
        m[3, 0] * x + m[3, 1] * y + m[3, 2] * z + m[3, 3],
    )


@kernel
def homogeneous_corners(vertices: Any, faces: Any, face: Any, m: Any) -> Any:
    """Return the homogeneous pixels and depths of a face's three corners; see `_corner`."""
    return (
        _corner(vertices, faces[face, 0], m),
        _corner(vertices, faces[face, 1], m),
        _corner(vertices, faces[face, 2], m),
    )


@kernel
def _clip(corners: Any, near: Any, perspective: Any, polygon: Any) -> Any:
    """Clip a triangle at the near plane; write u, v and key of the result to `polygon`, (4, 3), and return its size.

    `corners` are three tuples of homogeneous pixel and depth. A clipped edge is always computed from its near end, so
    that both of its triangles get the same point.
    """
    count = 0
    for i in range(3):
        a, b = i, (i + 1) % 3
        if corners[a][3] >= near:
            scale = 1.0 / corners[a][2]
            polygon[count, 0] = corners[a][0] * scale
            polygon[count, 1] = corners[a][1] * scale
            polygon[count, 2] = scale if perspective else -corners[a][3]
            count += 1
        if (corners[a][3] >= near) != (corners[b][3] >= near):
            if corners[a][3] >= near:
                a, b = b, a
            part = (near - corners[a][3]) / (corners[b][3] - corners[a][3])
            scale = 1.0 / near if perspective else 1.0
            polygon[count, 0] = (corners[a][0] + (corners[b][0] - corners[a][0]) * part) * scale
            polygon[count, 1] = (corners[a][1] + (corners[b][1] - corners[a][1]) * part) * scale
            polygon[count, 2] = scale if perspective else -near
            count += 1
    return count


@inlined_kernel
def _corner_indices(faces: Any, face: Any, base: Any) -> Any:
    """Return a face's vertices within its block, unsigned, so that they need no check for negative indices."""
    return (
        np.uint64(faces[face, 0] - base),
        np.uint64(faces[face, 1] - base),
        np.uint64(faces[face, 2] - base),
    )


@kernel
def _find_covering_faces(
    faces: Any, start: Any, stop: Any, base: Any, local: Any, near: Any,
    top: Any, bottom: Any, width: Any, covering: Any,
) -> Any:  # fmt: skip
    """Write the faces out of start … stop-1 that may cover a pixel to `covering`; return their number.

    Such a face has a pixel centre within its bounding rectangle, or intersects the near plane. In a dense scan most
    faces are between pixel centres. The loop is branchless to avoid mispredictions.
    """
    count = 0
    u, v, depths = local[0], local[1], local[3]
    for face in range(start, stop):
        a, b, c = _corner_indices(faces, face, base)
        ua, ub, uc = u[a], u[b], u[c]
        va, vb, vc = v[a], v[b], v[c]
        first_row = np.ceil(max(min(va, vb, vc), top) - 0.5)
        last_row = np.ceil(min(max(va, vb, vc), bottom) - 0.5)
        first_column = np.ceil(max(min(ua, ub, uc), 0.0) - 0.5)
        last_column = np.ceil(min(max(ua, ub, uc), width) - 0.5)
        da, db, dc = depths[a], depths[b], depths[c]
        covers = (first_row < last_row) & (first_column < last_column)
        cut = min(da, db, dc) < near
        covering[count] = face
        count += int((covers | cut) & (max(da, db, dc) >= near))
    return count


@kernel
def _set_up_faces(
    faces: Any, covering: Any, base: Any, local: Any, first_row: Any, last_row: Any, triangles: Any
) -> None:  # fmt: skip
    """Set up the faces in `covering`, (n,); those that intersect the near plane get meaningless values."""
    u, v, keys = local[0], local[1], local[2]
    for i in range(len(covering)):
        a, b, c = _corner_indices(faces, covering[i], base)
        _set_up(
            u[a], v[a], keys[a], u[b], v[b], keys[b], u[c], v[c], keys[c],
            first_row, last_row, triangles[i],
        )  # fmt: skip


@kernel
def _draw_cut(
    corners: Any, polygon: Any, near: Any, perspective: Any,
    face: Any, order: Any, first_row: Any, last_row: Any, keys: Any, nearest: Any,
    pages: Any, material: Any, plane: Any,
) -> None:  # fmt: skip
    """Draw the part of a triangle that is beyond the near plane."""
    triangle = np.empty(SIZE, np.float64)
    for third in range(2, _clip(corners, near, perspective, polygon)):
        _set_up(
            polygon[0, 0], polygon[0, 1], polygon[0, 2],
            polygon[third - 1, 0], polygon[third - 1, 1], polygon[third - 1, 2],
            polygon[third, 0], polygon[third, 1], polygon[third, 2],
            first_row, last_row, triangle,
        )  # fmt: skip
        _fill(triangle, face, order, keys, nearest, pages, material, plane)


@kernel
def draw_faces(
    vertices: Any, faces: Any, order: Any, first_vertex: Any, block_size: Any,
    blocks: Any, rectangles: Any, block_keys: Any, matrix: Any, perspective: Any, near: Any,
    pages: Any, first_row: Any, last_row: Any, keys: Any, nearest: Any,
) -> None:  # fmt: skip
    """Draw the visible blocks, front to back, into the rows [first_row, last_row) of `keys`, (H, W) float32, -inf if
    empty,
    and `nearest`, (H, W) int32, the face's position in block order.
    """
    clear(keys, nearest, first_row, last_row)
    local = np.empty((4, 3 * block_size), np.float64)
    polygon = np.empty((4, 3), np.float64)
    width = np.float64(keys.shape[1])
    covering = np.empty(block_size, np.int64)
    triangles = np.empty((block_size, SIZE), np.float64)
    plane = ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
    holes = pages.cutoffs.max() >= 0.0 if len(pages.materials) else False
    for i in range(len(blocks)):
        if is_hidden(keys, rectangles[i], first_row, last_row, block_keys[i]):
            continue
        start = blocks[i] * block_size
        base = first_vertex[blocks[i]]
        _project(vertices, base, first_vertex[blocks[i] + 1], matrix, perspective, local)
        count = _find_covering_faces(
            faces, start, min(start + block_size, len(faces)), base, local, near,
            np.float64(first_row), np.float64(last_row), width, covering,
        )  # fmt: skip
        _set_up_faces(faces, covering[:count], base, local, first_row, last_row, triangles)
        for n in range(count):
            face = covering[n]
            a, b, c = _corner_indices(faces, face, base)
            material = -1
            if holes and pages.materials[face] >= 0 and pages.cutoffs[pages.materials[face]] >= 0.0:
                material = pages.materials[face]
                corners = homogeneous_corners(vertices, faces, face, matrix)
                plane = texture_plane(corner_normals(corners), faces, face, pages.uv)
            if min(local[3, a], local[3, b], local[3, c]) < near:
                corners = homogeneous_corners(vertices, faces, face, matrix)
                _draw_cut(
                    corners, polygon, near, perspective,
                    face, order, first_row, last_row, keys, nearest, pages, material, plane,
                )  # fmt: skip
            elif material >= 0:
                _fill_around_holes(triangles[n], face, order, keys, nearest, pages, material, plane)
            else:
                _fill(triangles[n], face, order, keys, nearest, pages, -1, plane)


@kernel
def name_faces(
    order: Any, perspective: Any, first_row: Any, last_row: Any, keys: Any, nearest: Any
) -> None:
    """Convert one band of the buffer, in place, to depths in metres (inf for the background) and the scene's face
    indices.
    """
    for row in range(first_row, last_row):
        for column in range(keys.shape[1]):
            face = nearest[row, column]
            if face < 0:
                keys[row, column] = np.inf
            else:
                key = keys[row, column]
                keys[row, column] = np.float32(1.0) / key if perspective else -key
                nearest[row, column] = order[face]


@kernel
def cover(
    vertices: Any,  # (3, n) metres
    faces: Any,  # (m, 3)
    face_indices: Any,
    matrix: Any,
    near: Any,
    mask: Any,  # (H, W) bool, overwritten
) -> None:
    """Mark the pixels, (H, W) bool, that the given faces of a mesh cover in perspective, ignoring holes in textures."""
    mask[:] = False
    height, width = mask.shape
    polygon = np.empty((4, 3), np.float64)
    triangle = np.empty(SIZE, np.float64)
    for face in face_indices:
        corners = homogeneous_corners(vertices, faces, face, matrix)
        for third in range(2, _clip(corners, near, True, polygon)):
            _set_up(
                polygon[0, 0], polygon[0, 1], 0.0,
                polygon[third - 1, 0], polygon[third - 1, 1], 0.0,
                polygon[third, 0], polygon[third, 1], 0.0,
                0, height, triangle,
            )  # fmt: skip
            for row in range(np.int64(triangle[12]), np.int64(triangle[13])):
                left, right = _columns(row, triangle, width)
                for column in range(left, right):
                    mask[row, column] = True


@inlined_kernel
def _across(a: Any, b: Any) -> Any:
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


@inlined_kernel
def corner_normals(corners: Any) -> Any:
    """Return the pairwise cross products of a face's homogeneous corners: b × c, c × a, a × b."""
    a, b, c = corners
    return _across(b, c), _across(c, a), _across(a, b)
