"""Draws four directions in one image, each labelled with its name and yaw."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from render_agent.render.map_view.overlay import INK, PAPER, unit, write
from render_agent.render.renderer import Renderer
from render_agent.scans.camera import Camera, vertical_from_horizontal
from render_agent.scans.scene import Scene

# Horizontal field of view of each direction; the four cover the horizon.
QUARTER_DEGREES = 90.0
GAP_PIXELS = 4  # between the four cells

# Layouts: directions in reading order, with their yaw relative to the camera.
SQUARE = (("ahead", 0.0), ("right", -90.0), ("left", 90.0), ("behind", 180.0))
# for very wide images
STRIP = (("left", 90.0), ("ahead", 0.0), ("right", -90.0), ("behind", 180.0))


def draw_around(
    renderer: Renderer,
    scene: Scene,
    camera: Camera,
    size: tuple[int, int],  # width and height of the whole image in pixels
) -> tuple[NDArray[np.uint8], Camera]:
    """Return the image, (H, W, 3) uint8, and the camera of the direction ahead."""
    directions, _, _ = _layout(size)
    ahead = camera_ahead(camera, size)
    image = Image.new("RGB", size, INK)
    for (name, degrees), place in zip(directions, cell_places(size), strict=True):
        view = ahead.turned(degrees)
        cell = Image.fromarray(renderer.draw(scene, view, *cell_size(size)).colours)
        scale = unit(*size)
        text = f"{name}, yaw {round(view.yaw)}°"
        write(cell, (cell.width / 2, 14 * scale), text, 17 * scale, fill=PAPER, edge=INK)
        image.paste(cell, place)
    return np.array(image), ahead


def camera_ahead(camera: Camera, size: tuple[int, int]) -> Camera:
    """Return the camera of the direction ahead in an image of this size."""
    return replace(camera, vertical_fov=vertical_from_horizontal(QUARTER_DEGREES, *cell_size(size)))


def around_cameras(ahead: Camera) -> list[Camera]:
    """Return the cameras of the four directions, given that of the direction ahead."""
    return [ahead.turned(degrees) for _, degrees in SQUARE]


class PanelCell(NamedTuple):
    """One direction's cell in the image: its number, its size in pixels, and a pixel in it."""

    number: int
    size: tuple[int, int]
    pixel: tuple[int, int]


def cell_at(pixel: tuple[int, int], size: tuple[int, int]) -> PanelCell | None:
    """Return the cell that contains a pixel (column, row) of an image of this size; None if it is in a gap."""
    _, columns, rows = _layout(size)
    cell = cell_size(size)
    (column, u), (row, v) = (
        divmod(place, side + GAP_PIXELS) for place, side in zip(pixel, cell, strict=True)
    )
    if u >= cell[0] or v >= cell[1] or column >= columns or row >= rows:
        return None
    return PanelCell(row * columns + column, cell, (u, v))


def direction_of(ahead: Camera, size: tuple[int, int], number: int) -> Camera:
    """Return the camera of direction `number` in an image of this size, given that of the direction ahead."""
    directions, _, _ = _layout(size)
    return ahead.turned(directions[number][1])


def cell_places(size: tuple[int, int]) -> list[tuple[int, int]]:
    """Return the top left pixel of each direction's cell in an image of this size, by number."""
    directions, columns, _ = _layout(size)
    width, height = (side + GAP_PIXELS for side in cell_size(size))
    places = (divmod(number, columns) for number in range(len(directions)))
    return [(column * width, row * height) for row, column in places]


def _layout(size: tuple[int, int]) -> tuple[tuple[tuple[str, float], ...], int, int]:
    """Return the directions in reading order, the number of columns and the number of rows."""
    return (STRIP, 4, 1) if size[0] > 2 * size[1] else (SQUARE, 2, 2)


def cell_size(size: tuple[int, int]) -> tuple[int, int]:
    """Return the width and height in pixels of a cell in an image of this size."""
    _, columns, rows = _layout(size)
    return (size[0] - GAP_PIXELS * (columns - 1)) // columns, (
        size[1] - GAP_PIXELS * (rows - 1)
    ) // rows
