"""The true cognitive map of a scene: the middles of its objects on a grid of 10 × 10, and in metres.

VSI-Bench's authors made theirs from the middles of the annotated objects, z left out, normalised into a 10 × 10 grid
(thinking-in-space, issue 10), and released neither them nor the code (issues 16 and 26). What they normalise by is not
said. Here the grid is the smallest square around the boxes of all objects, with their middle in its own: one scale for
both axes, so that directions and ratios of distances stay what they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from render_agent.score.beliefs.matching import FloatArray
from render_agent.tasks.ground_truth import Facts

CELLS = 10
"""Along each side of the grid; cells are numbered from 0, x to the right and y upwards, as in the scene."""


def square_around(facts: Facts) -> tuple[FloatArray, float]:
    """Return the corner (2,) of least x and y, and the side, of the smallest square around all boxes, in metres."""
    bounds = np.array([box.bounds[:, :2] for some in facts.boxes.values() for box in some])
    low, high = bounds[:, 0].min(axis=0), bounds[:, 1].max(axis=0)
    side = float((high - low).max())
    return (low + high - side) / 2, side


def grid_map(facts: Facts) -> dict[str, list[list[int]]]:
    """Return a scene's map as VSI-Bench's authors write it: by category the cells [x, y] of its objects, 0 to 9."""
    if not any(facts.boxes.values()):
        return {}
    corner, side = square_around(facts)
    return {
        label: [
            np.clip((CELLS * (box.centre[:2] - corner) / side).astype(int), 0, CELLS - 1).tolist()
            for box in some
        ]
        for label, some in sorted(facts.boxes.items())
    }


def metric_map(facts: Facts) -> dict[str, Any]:
    """Return a scene's map in metres, in the frame of its scan: the boxes of its objects, and the square of its grid."""
    schema: dict[str, Any] = {
        "room_square_metres": round(facts.room_size, 3),
        "objects": {
            label: [
                {
                    "position": _rounded(box.centre),
                    "size": _rounded(box.size),
                    "axes": [_rounded(axis) for axis in box.axes],
                }
                for box in some
            ]
            for label, some in sorted(facts.boxes.items())
        },
    }
    if any(facts.boxes.values()):
        corner, side = square_around(facts)
        schema["grid"] = {"corner": _rounded(corner), "metres_per_cell": round(side / CELLS, 4)}
    return schema


def _rounded(values: FloatArray) -> list[float]:
    return [round(float(value), 4) for value in values]
