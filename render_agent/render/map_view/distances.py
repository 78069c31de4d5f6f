"""Compiled kernels of the map: distance transform and downscaling. Import lazily, because numba is slow to load."""

from __future__ import annotations

from typing import Any

import numpy as np

from render_agent.render.rasteriser.kernels import kernel


@kernel
def squared_distances(marked: Any) -> Any:
    """Return the squared distance in pixels, (H, W), from each pixel to the nearest marked one, (H, W) bool.

    If no pixel is marked, it is (H + W) squared. Exact and linear in time (Meijster, Roerdink and Hesselink 2000, "A
    general algorithm for computing distance transforms in linear time").
    """
    height, width = marked.shape
    far = height + width
    along = np.empty((height, width), np.int64)  # distance to the nearest mark in the column
    for row in range(height):
        for column in range(width):
            above = along[row - 1, column] + 1 if row else far
            along[row, column] = 0 if marked[row, column] else min(above, far)
    for row in range(height - 2, -1, -1):
        for column in range(width):
            along[row, column] = min(along[row, column], along[row + 1, column] + 1)
    distances = np.empty((height, width))
    squares, nearest, first = np.empty((3, width), np.int64)
    for row in range(height):
        for column in range(width):
            squares[column] = along[row, column] ** 2
        # Columns whose marks are nearest to some pixels of the row, and the first of those pixels.
        last = 0
        nearest[0] = first[0] = 0
        for column in range(1, width):
            while last >= 0 and (
                (first[last] - nearest[last]) ** 2 + squares[nearest[last]]
                > (first[last] - column) ** 2 + squares[column]
            ):
                last -= 1
            begin = 0
            if last >= 0:
                other = nearest[last]
                between = column**2 - other**2 + squares[column] - squares[other]
                begin = 1 + between // (2 * (column - other))
            if begin < width:
                last += 1
                nearest[last], first[last] = column, begin
        for column in range(width - 1, -1, -1):
            distances[row, column] = (column - nearest[last]) ** 2 + squares[nearest[last]]
            if column == first[last]:
                last -= 1
    return distances


@kernel
def downscale(
    colours: Any, lines: Any, faces: Any, line_colour: Any, face_colour: Any, each: Any
) -> Any:
    """Downscale an image by n with lines and cut faces painted over it; return (H, W, 3) uint8.

    Args:
        colours: (n H, n W, 3) uint8.
        lines: (n H, n W) bool, pixels with the colour of section lines.
        faces: (H, W) bool, pixels whose other subpixels have the colour of cut faces.
        line_colour: RGB.
        face_colour: RGB.
        each: A tuple of n arbitrary values. Its length is a compile-time constant, which makes the inner loops three
            times faster.
    """
    height, width = faces.shape
    picture = np.empty((height, width, 3), np.uint8)
    times = len(each)
    count = times * times
    for row in range(height):
        for column in range(width):
            crossed = 0
            for v in range(times):
                for u in range(times):
                    crossed += lines[times * row + v, times * column + u]
            for channel in range(3):
                total = count // 2  # rounds the division
                if not crossed and not faces[row, column]:  # the common case
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
                picture[row, column, channel] = total // count
    return picture
