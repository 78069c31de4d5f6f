"""Where a scene's surfaces cross a height: the walls of a floor plan, which have no top to be seen."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from render_agent.geometry.camera import FloatArray, MapCamera
from render_agent.render.map_view.overlay import SMOOTH, unit
from render_agent.scene.model import Scene

WALL_COLOUR = (52, 52, 60)
WALL_WIDTH_PIXELS = 2.4
"""Pixels of a 640×480 picture."""

SLAB_METRES = 0.04
"""A cloud's point this near to the cut, in metres, belongs to the section."""


def draw_section(picture: NDArray[np.uint8], scene: Scene, camera: MapCamera) -> NDArray[np.uint8]:
    """Return `picture`, (H, W, 3), drawn at SMOOTH times its final size, with the cut surfaces dark.

    camera: what it was drawn with; its height is that of the cut.
    """
    height, width, _ = picture.shape
    image = Image.fromarray(picture)
    pen = ImageDraw.Draw(image)
    wide = max(round(WALL_WIDTH_PIXELS * unit(width // SMOOTH, height // SMOOTH) * SMOOTH), 1)
    ends = (
        _cloud_section(scene, camera) if scene.faces is None else mesh_section(scene, camera.height)
    )
    pixels, _ = camera.project(ends.reshape(-1, 3), width, height)
    for line in pixels.reshape(-1, ends.shape[1] * 2).tolist():
        if len(line) == 2:
            pen.circle(line, wide / 2, fill=WALL_COLOUR)
        else:
            pen.line(line, fill=WALL_COLOUR, width=wide)
    return np.array(image)


def mesh_section(scene: Scene, height: float) -> FloatArray:
    """Return where a mesh's faces cross the level `height` (metres): (k, 2, 3) ends, world frame."""
    assert scene.faces is not None
    above = scene.points[:, 2] > height
    faces = scene.faces
    count = above[faces[:, 0]].astype(np.int8)
    for corner in (1, 2):
        count += above[faces[:, corner]]
    crossing = faces[(count == 1) | (count == 2)]
    # The corner that is alone on its side is where both crossed edges meet.
    lonely = above[crossing] == (above[crossing].sum(axis=1) == 1)[:, None]
    first = lonely.argmax(axis=1)
    rows = np.arange(len(crossing))
    apex, *others = (
        scene.points[crossing[rows, (first + step) % 3]].astype(np.float64) for step in range(3)
    )
    ends = []
    for other in others:
        share = (height - apex[:, 2]) / (other[:, 2] - apex[:, 2])
        ends.append(apex + share[:, None] * (other - apex))
    return np.stack(ends, axis=1)


def _cloud_section(scene: Scene, camera: MapCamera) -> FloatArray:
    """Return one point for every pixel that a cloud's points near the cut fall on: (k, 1, 3)."""
    near = scene.points[np.abs(scene.points[:, 2] - camera.height) < SLAB_METRES].astype(np.float64)
    cells = np.floor(near[:, :2] / camera.metres_per_pixel).astype(np.int64)
    _, first = np.unique(cells, axis=0, return_index=True)
    one_each: FloatArray = near[first][:, None]
    return one_each
