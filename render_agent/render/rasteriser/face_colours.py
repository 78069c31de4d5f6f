"""Colours the faces in a depth buffer, pixel by pixel, from textures and vertex colours."""

from __future__ import annotations

from typing import Any

import numpy as np

from render_agent.render.rasteriser.kernels import inlined_kernel, kernel, prefetch
from render_agent.render.rasteriser.mipmaps import (
    NO_IMAGE,
    detail_at,
    place_at,
    show_texels,
    texel_at,
    texture_plane,
    wrap_coordinate,
)
from render_agent.render.rasteriser.zbuffer import corner_normals, homogeneous_corners

# Pixels of a row that share a mip level, computed at their middle; GPUs use 2 x 2 pixels.
SAME_DETAIL_PIXELS = 8
PREFETCH_PIXELS = 16  # pixels ahead whose faces are prefetched
CACHED_FACES = 2048  # cached planes of faces; few enough to fit in the CPU cache


@inlined_kernel
def _store_vectors(table: Any, row: Any, column: Any, values: Any) -> None:
    """Store three vectors in a row of a table, starting at column `column`."""
    for i in range(3):
        for axis in range(3):
            table[row, column + 3 * i + axis] = values[i][axis]


@inlined_kernel
def _load_vectors(table: Any, row: Any, column: Any) -> Any:
    """Return the three vectors stored by `_store_vectors`."""
    return (
        (table[row, column], table[row, column + 1], table[row, column + 2]),
        (table[row, column + 3], table[row, column + 4], table[row, column + 5]),
        (table[row, column + 6], table[row, column + 7], table[row, column + 8]),
    )


@kernel
def colour_faces(
    vertices: Any, vertex_colours: Any, faces: Any, matrix: Any, pages: Any, background: Any,
    first_row: Any, last_row: Any, nearest: Any, colours: Any,
) -> None:  # fmt: skip
    """Write the colours, (H, W, 3) uint8, of one band of the buffer. For `pages` see Texturing.

    With the homogeneous pixels a, b, c of the corners and the pixel p = (u, v, 1), the barycentric weight of a is
    p · (b × c) divided by the sum of the three. This is exact in perspective, including faces that extend behind the
    camera.
    """
    shades = np.empty((3, 3), np.float64)
    # Unpacked here, because passing a tuple updates the reference count of each array, which costs more than a texel.
    starts, scales, materials = pages.starts, pages.scales, pages.materials
    first_level, wraps, uv, tints = pages.first, pages.wraps, pages.uv, pages.tints
    has_textures = len(materials) > 0
    has_tints = len(tints) > 0
    # Most faces occur again in the next row.
    owners = np.full(CACHED_FACES, -1, np.int32)
    planes = np.empty((CACHED_FACES, 18 if has_textures else 9), np.float64)
    width = nearest.shape[1]
    face_corners = faces.reshape(-1)
    places, details = np.empty((2, width), np.uint64), np.empty(width, np.int64)
    for row in range(first_row, last_row):
        v = row + 0.5
        end = 0
        while end < width:
            begin, face = end, nearest[row, end]
            prefetch(face_corners, 3 * nearest[row, min(end + PREFETCH_PIXELS, width - 1)])
            while end < width and nearest[row, end] == face:
                end += 1
            material = materials[face] if has_textures and face >= 0 else -1
            if has_textures and material < 0:
                for column in range(begin, end):
                    details[column] = NO_IMAGE
            if face < 0:
                for column in range(begin, end):
                    for channel in range(3):
                        colours[row, column, channel] = background[channel]
                continue
            a, b, c = faces[face, 0], faces[face, 1], faces[face, 2]
            flat = material < 0
            for channel in range(3):
                tone = vertex_colours[a, channel]
                flat &= tone == vertex_colours[b, channel] and tone == vertex_colours[c, channel]
            if flat:  # a single colour, as on all faces of generated rooms
                for column in range(begin, end):
                    for channel in range(3):
                        colours[row, column, channel] = vertex_colours[a, channel]
                continue
            slot = np.uint64(face % CACHED_FACES)
            if owners[slot] != face:
                owners[slot] = face
                normals = corner_normals(homogeneous_corners(vertices, faces, face, matrix))
                _store_vectors(planes, slot, 0, normals)
                if material >= 0:
                    _store_vectors(planes, slot, 9, texture_plane(normals, faces, face, uv))
            if material >= 0:
                plane = _load_vectors(planes, slot, 9)
                finest, coarsest = first_level[material], first_level[material + 1] - 1
                wrap_s, wrap_t = wraps[material, 0], wraps[material, 1]
                for first in range(begin, end, SAME_DETAIL_PIXELS):
                    last = min(first + SAME_DETAIL_PIXELS, end)
                    s, t, w = place_at(plane, 0.5 * (first + last), v)
                    level, share = detail_at(scales, finest, coarsest, plane, s, t, w)
                    detail = level << 9 | np.int64(share)
                    start, row_of = starts[level, 0], starts[level, 1]
                    wide, tall = scales[level, 0], scales[level, 1]
                    level = min(level + 1, coarsest)
                    far_start, far_row = starts[level, 0], starts[level, 1]
                    far_wide, far_tall = scales[level, 0], scales[level, 1]
                    for column in range(first, last):
                        s, t, _ = place_at(plane, column + 0.5, v)
                        s, t = wrap_coordinate(s, wrap_s), wrap_coordinate(t, wrap_t)
                        details[column] = detail
                        places[0, column] = texel_at(start, row_of, wide, tall, s, t)
                        places[1, column] = texel_at(far_start, far_row, far_wide, far_tall, s, t)
                if not has_tints:
                    continue
            for corner in range(3):
                vertex = faces[face, corner]
                for channel in range(3):
                    if material >= 0:
                        shades[corner, channel] = tints[vertex, channel]
                    else:
                        shades[corner, channel] = vertex_colours[vertex, channel]
            (a0, a1, a2), (b0, b1, b2), (c0, c1, c2) = _load_vectors(planes, slot, 0)
            for column in range(begin, end):
                u = column + 0.5
                wa, wb = a0 * u + (a1 * v + a2), b0 * u + (b1 * v + b2)
                wc = c0 * u + (c1 * v + c2)
                sign = 1.0 if wa + wb + wc > 0.0 else -1.0
                wa, wb, wc = max(wa * sign, 0.0), max(wb * sign, 0.0), max(wc * sign, 0.0)
                total = wa + wb + wc
                if total == 0.0:
                    wa = wb = wc = total = 1.0
                scale = 1.0 / total
                for channel in range(3):
                    shade = (
                        wa * shades[0, channel] + wb * shades[1, channel] + wc * shades[2, channel]
                    )
                    colours[row, column, channel] = np.uint8(shade * scale + 0.5)
        if has_textures:
            show_texels(
                pages.texels, starts, places, details,
                has_tints, pages.light, pages.levels, colours[row],
            )  # fmt: skip
