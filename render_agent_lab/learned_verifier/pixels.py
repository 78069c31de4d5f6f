"""A frozen encoder without weights: describes cells of the view and of the map by colours and edges.

The map is rotated so that the camera is at its centre and faces up. Every cell has a random code, and the text has a
token with the same code, so that the token attends to this cell and attention over tokens is attention over cells. Further
tokens represent the objects named in the question.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from render_agent.dialogue.question import Question
from render_agent.scans.camera import Camera, MapCamera
from render_agent.tasks.question_types import base_question_type, named_categories
from render_agent_lab.learned_verifier.encoder import Encoder, EncoderInput, Floats

VERSION = 1  # incremented when the features of an image change

COLUMNS, VIEW_ROWS, MAP_ROWS = 8, 4, 8
SIDE_METRES = 12.0  # metres of map across the encoded area

CELL_PIXELS = 8  # pixels per cell side after scaling

CONTENT, CODE = 24, 56  # features per cell: contents, and the code of the cell

NAME_TOKENS = 6  # tokens for the question type and the named categories

CODE_NORM = 1.5  # norm of a cell's code

UNSCANNED_GREYS = (200, 255)  # grey levels of colourless pixels that count as not scanned

Pixels = NDArray[np.float64]


class PixelEncoder(Encoder):
    """Describes cells of the view and of the map around the camera by colours and edges."""

    label = "pixels"
    rows, columns = VIEW_ROWS + MAP_ROWS, COLUMNS
    text = rows * columns + NAME_TOKENS
    features = CONTENT + CODE

    def __init__(self) -> None:
        codes = np.random.default_rng(2026).standard_normal((self.rows * self.columns, CODE))
        self._codes = CODE_NORM * codes / np.linalg.norm(codes, axis=1, keepdims=True)

    def describe(self) -> dict[str, Any]:
        """Return the version."""
        return {"version": VERSION}

    def key(self, view_input: EncoderInput) -> Any:
        """Return the files of view and map, and the pose."""
        return view_input.view.file, view_input.plan and view_input.plan.file, view_input.camera

    def encode_views(
        self, inputs: Sequence[EncoderInput], load_image: Callable[[str], Image.Image]
    ) -> list[Floats]:
        """Return the cells of each view followed by those of the map around the camera."""
        results = []
        plans: dict[str, Image.Image] = {}  # many views of a scene have the same map
        for view_input in inputs:
            size = COLUMNS * CELL_PIXELS, VIEW_ROWS * CELL_PIXELS
            view = load_image(view_input.view.file).resize(size, Image.Resampling.BOX)
            cells = [_cells(np.asarray(view, np.float64) / 255, VIEW_ROWS)]
            map_pixels = np.full((MAP_ROWS * CELL_PIXELS, COLUMNS * CELL_PIXELS, 3), np.nan)
            if view_input.plan is not None and isinstance(view_input.plan.camera, MapCamera):
                file = view_input.plan.file
                plan = plans.setdefault(file, plans.get(file) or load_image(file))
                map_pixels = _rotated_map(plan, view_input.plan.camera, view_input.camera)
            cells.append(_cells(map_pixels, MAP_ROWS))
            contents = np.concatenate(cells)
            results.append(np.concatenate([contents, self._codes], axis=1).astype(np.float32))
        return results

    def encode_question(self, question: Question) -> Floats:
        """Return a token for every cell, and tokens for the question type and the named categories."""
        words = [base_question_type(question), *named_categories(question)][:NAME_TOKENS]
        names = np.zeros((NAME_TOKENS, self.features))
        for place, word in enumerate(words):
            names[place] = _hash_vector(word, self.features)
        cells = np.concatenate([np.zeros((len(self._codes), CONTENT)), self._codes], axis=1)
        return np.concatenate([cells, names]).astype(np.float32)


def _cells(pixels: Pixels, rows: int) -> Pixels:
    """Return the contents of the cells of an image (rows * CELL_PIXELS, COLUMNS * CELL_PIXELS, 3), (cells, CONTENT).

    NaN marks pixels outside the image.
    """
    is_inside = np.isfinite(pixels[..., 0])
    values = np.nan_to_num(pixels)
    grey = values.mean(-1)
    edges = [np.abs(np.diff(grey, axis=axis, append=grey.take([-1], axis))) for axis in (0, 1)]
    low, high = UNSCANNED_GREYS
    flat = np.ptp(values, axis=-1) < 0.02
    empty = is_inside & flat & (grey * 255 >= low) & (grey * 255 <= high)

    def by_cell(image: Pixels, parts: int) -> Pixels:
        """Return the means over `parts` x `parts` pieces of every cell, (cells, features)."""
        piece = CELL_PIXELS // parts
        means = image.reshape(rows, parts, piece, COLUMNS, parts, piece, -1).mean((2, 5))
        return np.asarray(means.transpose(0, 2, 1, 3, 4).reshape(rows * COLUMNS, -1))

    mean = by_cell(values, 1)
    deviation = np.sqrt(np.maximum(by_cell(values**2, 1) - mean**2, 0))
    share = by_cell(is_inside.astype(np.float64)[..., None], 1)
    cells = np.concatenate(
        [
            2 * by_cell(values, 2) - 1,  # 12
            mean - mean.mean(-1, keepdims=True),  # 3
            4 * deviation,  # 3
            *(10 * by_cell(edge[..., None], 1) for edge in edges),  # 2
            by_cell(empty.astype(np.float64)[..., None], 1),
            share,
            np.ones((len(mean), 2)) * (rows == MAP_ROWS),
        ],
        axis=1,
    )
    return np.where(share > 0, cells, 0.0) / math.sqrt(CONTENT)


def _rotated_map(image: Image.Image, map_camera: MapCamera, camera: Camera) -> Pixels:
    """Return the map rotated so that the camera is at its centre and faces up; NaN beyond its edge."""
    high, wide = MAP_ROWS * CELL_PIXELS, COLUMNS * CELL_PIXELS
    step = SIDE_METRES / wide
    ahead_metres = (high / 2 - 0.5 - np.arange(high)) * step
    left_metres = (wide / 2 - 0.5 - np.arange(wide)) * step
    yaw = math.radians(camera.yaw)
    x = (
        camera.position[0]
        + ahead_metres[:, None] * math.cos(yaw)
        - left_metres[None] * math.sin(yaw)
    )
    y = (
        camera.position[1]
        + ahead_metres[:, None] * math.sin(yaw)
        + left_metres[None] * math.cos(yaw)
    )
    places = np.stack([x.ravel(), y.ravel(), np.zeros(x.size)], axis=1)
    # reduce first, so that each output pixel averages the area that it covers
    factor = max(1, round(step / map_camera.metres_per_pixel))
    small = np.asarray(image.reduce(factor), np.float64) / 255
    pixels, _ = map_camera.project(places, *image.size)
    u, v = np.floor(pixels / factor).astype(int).T
    is_inside = (u >= 0) & (v >= 0) & (u < small.shape[1]) & (v < small.shape[0])
    neighbours = np.full((x.size, 3), np.nan)
    neighbours[is_inside] = small[v[is_inside], u[is_inside]]
    return neighbours.reshape(high, wide, 3)


def _hash_vector(word: str, numbers: int) -> Pixels:
    """Return a pseudo-random unit vector for a word, (numbers,)."""
    digest = hashlib.sha256(word.encode("utf-8", "backslashreplace")).digest()
    direction = np.random.default_rng(list(digest)).standard_normal(numbers)
    return np.asarray(direction / np.linalg.norm(direction))
