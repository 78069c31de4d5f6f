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
from render_agent.render.rasteriser.mipmaps import is_hole, texture_plane

WIDE_PIXELS = 16  # spans at least this long are drawn with SIMD, which is slower for fewer pixels

# Rows of a table of triangles, one per column: their corners (pixel and key) from the top of the image to the bottom; the
# slopes of the edges from first to last, first to middle and middle to last corner; the change of the key per column and
# per row, and its range; the first and last-plus-one row.
X0, Y0, K0, X1, Y1, K1, X2, Y2, K2, LONG, UPPER, LOWER, KU, KV, LOW, HIGH, TOP, BOTTOM = range(18)
# Rows of a table of spans, one per triangle: the first and last-plus-one column, and the key at column 0.
LEFT, RIGHT, START = range(3)
PADDING = (
    8  # unused columns, without which the rows of a table would compete for the same cache lines
)

# Vertices are compared by the pixel to which they round: row << 32 | column.
ROW_BITS, COLUMN_BITS = np.int64(-1 << 32), np.int64((1 << 32) - 1)
BEHIND = np.int64(-1)  # instead of a pixel, for vertices that are closer than the near plane


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
def _project(
    vertices: Any, first: Any, last: Any, m: Any, perspective: Any, near: Any,
    first_row: Any, last_row: Any, width: Any, local: Any, pixels: Any,
) -> Any:  # fmt: skip
    """Write u, v and key of vertices first … last-1 to the rows of `local`, and the pixel within the band that each
    rounds to, or BEHIND, to `pixels`.
    """
    a0, a1, a2, a3 = m[0, 0], m[0, 1], m[0, 2], m[0, 3]
    b0, b1, b2, b3 = m[1, 0], m[1, 1], m[1, 2], m[1, 3]
    d0, d1, d2, d3 = m[3, 0], m[3, 1], m[3, 2], m[3, 3]
    for i in range(last - first):
        x = np.float64(vertices[0, first + i])
        y = np.float64(vertices[1, first + i])
        z = np.float64(vertices[2, first + i])
        depth = d0 * x + d1 * y + d2 * z + d3
        scale = 1.0 / depth if perspective else 1.0
        u = (a0 * x + a1 * y + a2 * z + a3) * scale
        v = (b0 * x + b1 * y + b2 * z + b3) * scale
        local[0, i], local[1, i], local[2, i] = u, v, scale if perspective else -depth
        is_front = depth >= near
        row = np.int64(np.ceil((min(max(v, first_row), last_row) if is_front else 0.0) - 0.5))
        column = np.int64(np.ceil((min(max(u, 0.0), width) if is_front else 0.0) - 0.5))
        pixels[i] = row << 32 | column if is_front else BEHIND


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
    faces: Any, start: Any, stop: Any, base: Any, pixels: Any, covering: Any
) -> Any:
    """Write the faces out of start … stop-1 that may cover a pixel to `covering`; return their number.

    Such a face has a pixel centre within its bounding rectangle, or intersects the near plane. In a dense scan most
    faces are between pixel centres. The loop is branchless to avoid mispredictions.
    """
    count = 0
    for face in range(start, stop):
        a, b, c = _corner_indices(faces, face, base)
        difference = (pixels[a] ^ pixels[b]) | (pixels[a] ^ pixels[c])
        covering[count] = face
        count += int(((difference & ROW_BITS) != 0) & ((difference & COLUMN_BITS) != 0))
    return count


@kernel
def _gather_corners(
    faces: Any, covering: Any, base: Any, local: Any, pixels: Any, triangles: Any, owners: Any, cut: Any
) -> Any:  # fmt: skip
    """Write the corners of faces to the columns of `triangles`, and those that intersect the near plane to `cut`
    instead; return the number of both.
    """
    u, v, keys = local[0], local[1], local[2]
    count = num_cut = 0
    for face in covering:
        a, b, c = _corner_indices(faces, face, base)
        triangles[X0, count], triangles[Y0, count], triangles[K0, count] = u[a], v[a], keys[a]
        triangles[X1, count], triangles[Y1, count], triangles[K1, count] = u[b], v[b], keys[b]
        triangles[X2, count], triangles[Y2, count], triangles[K2, count] = u[c], v[c], keys[c]
        owners[count] = cut[num_cut] = face
        is_cut = (pixels[a] | pixels[b] | pixels[c]) < 0
        num_cut += int(is_cut)
        count += int(not is_cut)
    return count, num_cut


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


@inlined_kernel
def homogeneous_corners(vertices: Any, faces: Any, face: Any, m: Any) -> Any:
    """Return the homogeneous pixels and depths of a face's three corners; see `_corner`."""
    return (
        _corner(vertices, faces[face, 0], m),
        _corner(vertices, faces[face, 1], m),
        _corner(vertices, faces[face, 2], m),
    )


@kernel
def _corners(vertices: Any, faces: Any, face: Any, m: Any) -> Any:
    """Do the same for few faces; inlining takes a second of compilation per call."""
    return homogeneous_corners(vertices, faces, face, m)


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


@kernel
def _append_clipped(
    corners: Any, near: Any, perspective: Any, face: Any, triangles: Any, owners: Any, count: Any
) -> Any:  # fmt: skip
    """Append the part of a face that is beyond the near plane to `triangles`; return their new number."""
    polygon = np.empty((4, 3))
    for third in range(2, _clip(corners, near, perspective, polygon)):
        for axis in range(3):
            triangles[X0 + axis, count] = polygon[0, axis]
            triangles[X1 + axis, count] = polygon[third - 1, axis]
            triangles[X2 + axis, count] = polygon[third, axis]
        owners[count] = face
        count += 1
    return count


@inlined_kernel
def _ordered(x0: Any, y0: Any, k0: Any, x1: Any, y1: Any, k1: Any) -> Any:
    """Return two corners from the top of the image to the bottom."""
    swap = y1 < y0
    return (
        x1 if swap else x0, y1 if swap else y0, k1 if swap else k0,
        x0 if swap else x1, y0 if swap else y1, k0 if swap else k1,
    )  # fmt: skip


@kernel
def _set_up(triangles: Any, count: Any, first_row: Any, last_row: Any) -> None:
    """Fill in the other rows of `triangles` from their corners, in any order.

    Branchless to avoid mispredictions: most triangles of a scan are too small to predict anything.
    """
    t = triangles
    for i in range(count):
        x0, y0, k0, x1, y1, k1 = _ordered(
            t[X0, i], t[Y0, i], t[K0, i], t[X1, i], t[Y1, i], t[K1, i]
        )
        x1, y1, k1, x2, y2, k2 = _ordered(x1, y1, k1, t[X2, i], t[Y2, i], t[K2, i])
        x0, y0, k0, x1, y1, k1 = _ordered(x0, y0, k0, x1, y1, k1)
        t[X0, i], t[Y0, i], t[K0, i], t[X1, i], t[Y1, i] = x0, y0, k0, x1, y1
        t[LONG, i] = (x2 - x0) / (y2 - y0)
        t[UPPER, i] = (x1 - x0) / (y1 - y0)
        t[LOWER, i] = (x2 - x1) / (y2 - y1)
        area = (x1 - x0) * (y2 - y0) - (x2 - x0) * (y1 - y0)
        t[KU, i] = ((k1 - k0) * (y2 - y0) - (k2 - k0) * (y1 - y0)) / area
        t[KV, i] = ((k2 - k0) * (x1 - x0) - (k1 - k0) * (x2 - x0)) / area
        t[LOW, i], t[HIGH, i] = min(k0, k1, k2), max(k0, k1, k2)
        t[TOP, i] = np.ceil(max(y0, first_row) - 0.5)
        bottom = np.ceil(min(y2, last_row) - 0.5)
        t[BOTTOM, i] = bottom if area != 0.0 else -1.0  # no rows


@kernel
def _find_spans(triangles: Any, count: Any, offset: Any, width: Any, spans: Any) -> None:
    """Write the columns that each triangle covers in its row number `offset` to `spans`, in a loop that is
    vectorised.
    """
    t = triangles
    for i in range(count):
        row = t[TOP, i] + offset
        y, x0, y0, y1 = row + 0.5, t[X0, i], t[Y0, i], t[Y1, i]
        is_upper = y < y1
        xa = x0 + (y - y0) * t[LONG, i]
        xb = x0 if is_upper else t[X1, i]
        xb += (y - (y0 if is_upper else y1)) * (t[UPPER, i] if is_upper else t[LOWER, i])
        spans[LEFT, i] = np.ceil(max(min(xa, xb), 0.0) - 0.5)
        right = np.ceil(min(max(xa, xb), width) - 0.5)
        spans[RIGHT, i] = right if row < t[BOTTOM, i] else -1.0
        spans[START, i] = t[K0, i] + (y - y0) * t[KV, i] + (0.5 - x0) * t[KU, i]


@kernel
def _drop_finished(triangles: Any, owners: Any, count: Any, offset: Any) -> Any:
    """Remove the triangles without a row number `offset`; return the number of others."""
    kept = 0
    for i in range(count):
        if triangles[TOP, i] + offset < triangles[BOTTOM, i]:
            for row in range(len(triangles)):
                triangles[row, kept] = triangles[row, i]
            owners[kept] = owners[i]
            kept += 1
    return kept


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


@kernel
def _fill_spans(
    t: Any, selected: Any, offset: Any, spans: Any, owners: Any, order: Any, keys: Any, nearest: Any
) -> None:
    """Draw row number `offset` of the selected triangles."""
    for n in range(len(selected)):
        i = np.uint64(selected[n])  # unsigned, so that it needs no check for negative indices
        row, face = np.uint64(t[TOP, i] + offset), owners[i]
        left, right = np.int64(spans[LEFT, i]), np.int64(spans[RIGHT, i])
        start, ku, low, high = spans[START, i], t[KU, i], t[LOW, i], t[HIGH, i]
        if right - left >= WIDE_PIXELS:
            _fill_wide(
                start, ku, low, high, left, face, order, keys[row, left:right], nearest[row, left:right]
            )  # fmt: skip
            continue
        for column in range(left, right):
            pixel = np.uint64(column)
            key = np.float32(min(max(start + column * ku, low), high))
            old_key, old_face = keys[row, pixel], nearest[row, pixel]
            wins = key > old_key
            if key == old_key:
                wins = order[face] < order[old_face]
            # branchless, because hidden pixels cannot be predicted
            keys[row, pixel] = key if wins else old_key
            nearest[row, pixel] = face if wins else old_face


@kernel
def _fill_spans_with_holes(
    t: Any, selected: Any, offset: Any, spans: Any, owners: Any, order: Any, keys: Any, nearest: Any,
    pages: Any, vertices: Any, faces: Any, matrix: Any,
) -> None:  # fmt: skip
    """Do the same for faces some of which have holes."""
    for n in range(len(selected)):
        i = selected[n]
        row, face = int(t[TOP, i]) + offset, owners[i]
        material = pages.materials[face]
        has_holes = material >= 0 and pages.cutoffs[material] >= 0.0
        normals = corner_normals(_corners(vertices, faces, face, matrix))
        plane = texture_plane(normals, faces, face, pages.uv)
        for column in range(int(spans[LEFT, i]), int(spans[RIGHT, i])):
            key = np.float32(min(max(spans[START, i] + column * t[KU, i], t[LOW, i]), t[HIGH, i]))
            old_key = keys[row, column]
            if key < old_key or (key == old_key and order[face] >= order[nearest[row, column]]):
                continue
            if not has_holes or not is_hole(pages, material, plane, column + 0.5, row + 0.5):
                keys[row, column] = key
                nearest[row, column] = face


@kernel
def _fill(
    triangles: Any, owners: Any, count: Any, spans: Any, selected: Any, order: Any, keys: Any, nearest: Any,
    pages: Any, has_holes: Any, vertices: Any, faces: Any, matrix: Any,
) -> None:  # fmt: skip
    """Draw triangles that are set up: the first row of all, then the second of all, and so on.

    The number of rows and columns of a single small triangle is unpredictable.
    """
    width = np.float64(keys.shape[1])
    offset = 0
    while count:
        _find_spans(triangles, count, offset, width, spans)
        num_selected = num_unfinished = 0
        for i in range(count):
            selected[num_selected] = i
            num_selected += int(spans[LEFT, i] < spans[RIGHT, i])
            num_unfinished += int(triangles[TOP, i] + (offset + 1) < triangles[BOTTOM, i])
        if has_holes:
            _fill_spans_with_holes(
                triangles, selected[:num_selected], offset, spans, owners, order, keys, nearest,
                pages, vertices, faces, matrix,
            )  # fmt: skip
        else:
            _fill_spans(
                triangles, selected[:num_selected], offset, spans, owners, order, keys, nearest
            )
        offset += 1
        if 2 * num_unfinished < count:
            count = _drop_finished(triangles, owners, count, offset)


@kernel
def draw_faces(
    vertices: Any, faces: Any, order: Any, first_vertex: Any, block_size: Any,
    blocks: Any, rectangles: Any, block_keys: Any, matrix: Any, perspective: Any, near: Any,
    pages: Any, first_row: Any, last_row: Any, keys: Any, nearest: Any,
) -> None:  # fmt: skip
    """Draw the visible blocks, front to back, into the rows [first_row, last_row) of `keys`, (H, W) float32, -inf if
    empty, and `nearest`, (H, W) int32, the face's position in block order.
    """
    clear(keys, nearest, first_row, last_row)
    top, bottom, width = np.float64(first_row), np.float64(last_row), np.float64(keys.shape[1])
    local, pixels = np.empty((3, 3 * block_size)), np.empty(3 * block_size, np.int64)
    covering, cut = np.empty((2, block_size), np.int32)
    owners, selected = np.empty((2, 2 * block_size), np.int32)
    triangles = np.empty((18, 2 * block_size + PADDING))
    spans = np.empty((3, 2 * block_size + PADDING))
    has_holes = len(pages.materials) > 0 and pages.cutoffs.max() >= 0.0
    for i in range(len(blocks)):
        if is_hidden(keys, rectangles[i], first_row, last_row, block_keys[i]):
            continue
        start, base = blocks[i] * block_size, first_vertex[blocks[i]]
        _project(
            vertices, base, first_vertex[blocks[i] + 1], matrix, perspective, near,
            top, bottom, width, local, pixels,
        )  # fmt: skip
        stop = min(start + block_size, len(faces))
        count = _find_covering_faces(faces, start, stop, base, pixels, covering)
        count, num_cut = _gather_corners(
            faces, covering[:count], base, local, pixels, triangles, owners, cut
        )
        for face in cut[:num_cut]:
            corners = _corners(vertices, faces, face, matrix)
            count = _append_clipped(corners, near, perspective, face, triangles, owners, count)
        _set_up(triangles, count, top, bottom)
        _fill(
            triangles, owners, count, spans, selected, order, keys, nearest,
            pages, has_holes, vertices, faces, matrix,
        )  # fmt: skip


@kernel
def name_faces(
    order: Any, perspective: Any, first_row: Any, last_row: Any, keys: Any, nearest: Any
) -> None:
    """Convert one band of the buffer, in place, to depths in metres (inf for the background) and the scene's face
    indices.
    """
    for row in range(first_row, last_row):
        for column in range(keys.shape[1]):
            key, face = keys[row, column], nearest[row, column]
            depth = np.float32(1.0) / key if perspective else -key
            keys[row, column] = depth if face >= 0 else np.inf
            nearest[row, column] = order[face] if face >= 0 else -1


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
    owner = np.empty(2, np.int32)
    triangles, spans = np.empty((18, 2)), np.empty((3, 2))
    for face in face_indices:
        corners = _corners(vertices, faces, face, matrix)
        count = _append_clipped(corners, near, True, face, triangles, owner, 0)
        _set_up(triangles, count, 0.0, np.float64(height))
        offset = 0
        # Spans of degenerate triangles are NaN.
        count = _drop_finished(triangles, owner, count, offset)
        while count:
            _find_spans(triangles, count, offset, np.float64(width), spans)
            for i in range(count):
                row = np.int64(triangles[TOP, i]) + offset
                for column in range(np.int64(spans[LEFT, i]), np.int64(spans[RIGHT, i])):
                    mask[row, column] = True
            offset += 1
            count = _drop_finished(triangles, owner, count, offset)


@inlined_kernel
def _across(a: Any, b: Any) -> Any:
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


@inlined_kernel
def corner_normals(corners: Any) -> Any:
    """Return the pairwise cross products of a face's homogeneous corners: b × c, c × a, a × b."""
    a, b, c = corners
    return _across(b, c), _across(c, a), _across(a, b)
