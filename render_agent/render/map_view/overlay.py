"""Overlays on rendered images: text, the metric grid, axes and the key.

Lines and shapes are drawn at twice the size and downscaled for antialiasing. Text is drawn at the final size,
where the font's own antialiasing is sharpest. Pixels are (u, v) as in `render_agent.scans.camera`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

Colour = tuple[int, int, int]
Pixel = tuple[float, float]

PAPER: Colour = (255, 255, 255)
INK: Colour = (20, 20, 24)
GRID: Colour = (0, 90, 255)
OLD: Colour = (150, 205, 255)
RECENT: Colour = (0, 80, 235)
HERE: Colour = (235, 0, 60)
GRID_STRENGTH = 0.42
SMOOTH = 2  # supersampling factor of shapes


def unit(width: int, height: int) -> float:
    """Return the scale of text and marks relative to a 640×480 image, at least 0.6."""
    return max(min(width / 640, height / 480), 0.6)


@cache
def font(size: int) -> ImageFont.FreeTypeFont:
    """Return PIL's built-in font, `size` pixels high, which does not depend on system fonts."""
    result = ImageFont.load_default(size)
    assert isinstance(result, ImageFont.FreeTypeFont)
    return result


def write(
    image: Image.Image,
    pixel: Pixel,
    text: str,
    size: float,  # height in pixels
    *,
    anchor: str = "mm",  # part of the text that is at the pixel, in PIL's notation
    fill: Colour = INK,
    edge: Colour | None = PAPER,  # outline colour; None for no outline
) -> None:
    """Write text `size` pixels high at a pixel, with an outline that makes it readable on any background."""
    ImageDraw.Draw(image).text(
        pixel,
        text,
        fill=fill,
        font=font(round(size)),
        anchor=anchor,
        stroke_width=0 if edge is None else max(1, round(size / 7)),
        stroke_fill=edge,
    )


@dataclass(frozen=True, slots=True)
class PlotArea:
    """The part of a map that shows the room, as pixel edges. The axis labels are around it."""

    left: int
    top: int
    right: int
    bottom: int

    @classmethod
    def inside(cls, width: int, height: int) -> PlotArea:
        """Return the plot area of an image of this size, which leaves space for labels and the scale bar."""
        scale = unit(width, height)
        return cls(
            round(42 * scale),
            round(24 * scale),
            width - round(10 * scale),
            height - round(24 * scale),
        )

    @property
    def size(self) -> tuple[int, int]:
        return self.right - self.left, self.bottom - self.top

    def crop(self, image: Image.Image) -> tuple[Image.Image, tuple[int, int]]:
        """Return the part of an image inside the plot area, and its top left pixel."""
        box = (self.left, self.top, self.right, self.bottom)
        return image.crop(box), (self.left, self.top)


@dataclass(frozen=True, slots=True)
class Ticks:
    """Grid lines along one axis: their values in metres and their pixels."""

    metres: Sequence[float]
    pixels: Sequence[float]


def draw_grid(image: NDArray[np.uint8], plot: PlotArea, x_ticks: Ticks, y_ticks: Ticks) -> None:
    """Tint the pixels of an image, (H, W, 3), on grid lines, in place."""
    for ticks, vertical in ((x_ticks, True), (y_ticks, False)):
        for pixel in ticks.pixels:
            line = math.floor(pixel)
            pixels = (
                np.s_[plot.top : plot.bottom, line]
                if vertical
                else np.s_[line, plot.left : plot.right]
            )
            tint = image[pixels] * (1 - GRID_STRENGTH) + np.array(GRID) * GRID_STRENGTH
            image[pixels] = np.rint(tint)


def axes(image: Image.Image, plot: PlotArea, x_ticks: Ticks, y_ticks: Ticks) -> None:
    """Clear the area around the plot and draw the axes: x at the bottom, y on the left."""
    width, height = image.size
    scale = unit(width, height)
    draw = ImageDraw.Draw(image)
    for box in (
        (0, 0, plot.left - 1, height),
        (plot.right, 0, width, height),
        (0, 0, width, plot.top - 1),
        (0, plot.bottom, width, height),
    ):
        draw.rectangle(box, fill=PAPER)
    draw.rectangle((plot.left - 1, plot.top - 1, plot.right, plot.bottom), outline=INK)
    size = 15 * scale
    row, column = plot.bottom + 12 * scale, plot.left - 7 * scale
    for metres, u in zip(x_ticks.metres, x_ticks.pixels, strict=True):
        draw.line((u, plot.bottom, u, plot.bottom + 3 * scale), fill=INK)
        write(image, (math.floor(u) + 0.5, row), f"{metres:g}", size, edge=None)
    for metres, v in zip(y_ticks.metres, y_ticks.pixels, strict=True):
        draw.line((plot.left - 1 - 3 * scale, v, plot.left - 1, v), fill=INK)
        write(image, (column, math.floor(v) + 0.5), f"{metres:g}", size, anchor="rm", edge=None)
    write(image, (3 * scale, row), "x (m)", 13 * scale, anchor="lm", edge=None)
    write(image, (3 * scale, plot.top / 2), "y (m)", 13 * scale, anchor="lm", edge=None)


def scale_bar(image: Image.Image, plot: PlotArea, metres: float, pixels: float) -> float:
    """Draw a scale bar of `metres`, `pixels` long, with its label, above the right end of the plot. Return the pixel
    column where the label starts.
    """
    scale = unit(*image.size)
    draw = ImageDraw.Draw(image)
    right, row = plot.right - 1, plot.top / 2
    left = right - round(pixels)
    draw.rectangle((left, row - 2 * scale, right, row + 1 * scale), fill=INK)
    for end in (left, right):
        draw.line((end, row - 6 * scale, end, row + 5 * scale), fill=INK, width=round(1.5 * scale))
    text, size, text_left = f"{metres:g} m", 14 * scale, left - 6 * scale
    write(image, (text_left, row), text, size, anchor="rm", edge=None)
    return text_left - font(round(size)).getlength(text)


def key(
    image: Image.Image,
    plot: PlotArea,
    labels: Sequence[str],
    end: float,
    fill: Colour,
    edge: Colour,
) -> None:
    """Draw the key of cut faces above the left end of the plot: a square in their colours, and its meaning."""
    scale = unit(*image.size)
    left, row, half, size = plot.left, plot.top / 2, 5 * scale, 13 * scale
    available = end - (left + 4 * half) - size / 2
    label = next((text for text in labels if font(round(size)).getlength(text) <= available), None)
    if label is None:
        return
    box = (left, row - half, left + 2 * half, row + half)
    ImageDraw.Draw(image).rectangle(box, fill=fill, outline=edge, width=max(round(scale), 1))
    write(image, (left + 4 * half, row), label, size, anchor="lm", edge=None)
