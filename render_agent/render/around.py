"""Four directions in one picture, each labelled with its name and yaw."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from render_agent.camera import Camera, vertical_from_horizontal
from render_agent.render.overlay import INK, PAPER, unit, write
from render_agent.render.seam import Renderer
from render_agent.scene.model import Scene

QUARTER = 90.0
"""The horizontal field of view of each direction in degrees: together they show the whole horizon."""

GAP = 4
"""Pixels between the four."""

SQUARE = (("ahead", 0.0), ("right", -90.0), ("left", 90.0), ("behind", 180.0))
"""Ahead above behind, left on the left, right on the right."""

STRIP = (("left", 90.0), ("ahead", 0.0), ("right", -90.0), ("behind", 180.0))
"""One turn to the right, for pictures more than twice as wide as high."""


def draw_around(
    renderer: Renderer, scene: Scene, camera: Camera, size: tuple[int, int]
) -> tuple[NDArray[np.uint8], Camera]:
    """Return the picture, (H, W, 3) uint8, and the camera of the direction ahead.

    size: width and height of the whole in pixels; each direction keeps the pitch of `camera`.
    """
    width, height = size
    strip = width > 2 * height
    directions, columns, rows = (STRIP, 4, 1) if strip else (SQUARE, 2, 2)
    cell_width = (width - GAP * (columns - 1)) // columns
    cell_height = (height - GAP * (rows - 1)) // rows
    field = vertical_from_horizontal(QUARTER, cell_width, cell_height)
    ahead = Camera(camera.position, camera.yaw, camera.pitch, field)
    image = Image.new("RGB", size, PAPER)
    for index, (name, left) in enumerate(directions):
        row, column = divmod(index, columns)
        view = ahead.turned(left)
        cell = Image.fromarray(renderer.draw(scene, view, cell_width, cell_height).colours)
        _label(cell, f"{name}, yaw {view.yaw:.0f}°", unit(*size))
        image.paste(
            cell,
            (
                column * (width - cell_width) // max(columns - 1, 1),
                row * (height - cell_height) // max(rows - 1, 1),
            ),
        )
    return np.array(image), ahead


def _label(cell: Image.Image, words: str, scale: float) -> None:
    place = cell.width / 2, 14 * scale
    write(cell, place, words, 17 * scale, fill=PAPER, edge=INK)
