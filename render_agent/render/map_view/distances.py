"""Compiled kernels of the map: distance transform and downscaling. Import lazily, because numba is slow to load."""

from __future__ import annotations

from typing import Any

import numpy as np

from render_agent.render.rasteriser.kernels import kernel


@kernel
def squared_distances(marks: Any) -> Any:
    """Return the squared distance in pixels, (H, W), from each pixel to the nearest marked one, (H, W) bool.

    If no pixel is marked, all distances are (H + W) squared. Exact and linear in time (Meijster, Roerdink and Hesselink
    2000, "A general algorithm for computing distance transforms in linear time").
    """
    height, width = marks.shape
    far = height + width
    along = np.empty((height, width), np.int64)  # distance to the nearest mark in the column
    for row in range(height):
        for column in range(width):
            above = along[row - 1, column] + 1 if row else far
            along[row, column] = 0 if marks[row, column] else min(above, far)
    for row in range(height - 2, -1, -1):
        for column in range(width):
            along[row, column] = min(along[row, column], along[row + 1, column] + 1)
    distances = np.empty((height, width))
    squares, sites, starts = np.empty((3, width), np.int64)
    for row in range(height):
        for column in range(width):
            squares[column] = along[row, column] ** 2
        # Columns whose marks are nearest to some pixels of the row, and the first of these pixels.
        top = 0
        sites[0] = starts[0] = 0
        for column in range(1, width):
            while top >= 0 and (
                (starts[top] - sites[top]) ** 2 + squares[sites[top]]
                > (starts[top] - column) ** 2 + squares[column]
            ):
                top -= 1
            begin = 0
            if top >= 0:
                site = sites[top]
                crossing = column**2 - site**2 + squares[column] - squares[site]
                begin = 1 + crossing // (2 * (column - site))
            if begin < width:
                top += 1
                sites[top], starts[top] = column, begin
        for column in range(width - 1, -1, -1):
            distances[row, column] = (column - sites[top]) ** 2 + squares[sites[top]]
            if column == starts[top]:
                top -= 1
    return distances


@kernel
def downscale(
    colours: Any,  # (n H, n W, 3) uint8
    lines: Any,  # (n H, n W) bool, pixels with the colour of section lines
    faces: Any,  # (H, W) bool, pixels whose remaining subpixels have the colour of cut faces
    line_colour: Any,  # RGB
    face_colour: Any,  # RGB
    subpixels: Any,
) -> Any:
    """Downscale an image by n with lines and cut faces painted over it; return (H, W, 3) uint8.

    `subpixels` is any tuple of n values: as a compile-time constant, its length makes the loops three times faster.
    """
    height, width = faces.shape
    image = np.empty((height, width, 3), np.uint8)
    times = len(subpixels)
    count = times * times
    for row in range(height):
        for column in range(width):
            num_lines = 0
            for v in range(times):
                for u in range(times):
                    num_lines += lines[times * row + v, times * column + u]
            for channel in range(3):
                total = count // 2  # rounds the division
                if not num_lines and not faces[row, column]:  # the common case
                    for v in range(times):
                        for u in range(times):
                            total += colours[times * row + v, times * column + u, channel]
                else:
                    for v in range(times):
                        for u in range(times):
                            if lines[times * row + v, times * column + u]:
                                total += line_colour[channel]
                            elif faces[row, column]:
                                total += face_colour[channel]
                            else:
                                total += colours[times * row + v, times * column + u, channel]
                image[row, column, channel] = total // count
    return image
