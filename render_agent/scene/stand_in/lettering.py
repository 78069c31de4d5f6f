"""Words as rectangles, to be laid on the faces of boxes."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

FloatArray = NDArray[np.float64]

FONT_PIXELS = 14
"""The size of the letters that are traced."""


@lru_cache(maxsize=1024)
def traced(words: str) -> FloatArray:
    """Return words as rectangles, (k, 4): left, bottom, right, top, in heights of the line.

    The line is 1 high and lies about (0, 0); its ends are the lowest left and the highest right.
    """
    font = ImageFont.load_default(FONT_PIXELS)
    left, top, right, bottom = font.getbbox(words)
    size = max(int(np.ceil(right - left)), 1), max(int(np.ceil(bottom - top)), 1)
    image = Image.new("L", size)
    ImageDraw.Draw(image).text((-left, -top), words, fill=255, font=font)
    boxes = _rectangles(np.asarray(image) > 110)
    width, height = size
    middle = np.array([width, height, width, height]) / 2
    strokes: FloatArray = (boxes - middle) / height * (1, -1, 1, -1)
    return strokes[:, [0, 3, 2, 1]]


def _rectangles(ink: NDArray[np.bool_]) -> FloatArray:
    """Return rectangles, (k, 4) left, top, right, bottom in pixels, that cover a picture's ink."""
    rectangles: list[tuple[int, int, int, int]] = []
    growing: dict[tuple[int, int], int] = {}
    for row, line in enumerate(np.pad(ink, ((0, 1), (1, 1))).astype(np.int8)):
        change = np.diff(line)
        runs = set(
            zip(np.flatnonzero(change == 1).tolist(), np.flatnonzero(change == -1).tolist(), strict=True)
        )  # fmt: skip
        ended = growing.keys() - runs
        rectangles.extend((run[0], growing.pop(run), run[1], row) for run in ended)
        for run in runs:
            growing.setdefault(run, row)
    return np.array(sorted(rectangles), np.float64).reshape(-1, 4)
