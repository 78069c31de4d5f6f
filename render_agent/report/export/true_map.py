"""The true cognitive map of a scene: object centres on a 10 × 10 grid, and in metres.

VSI-Bench's authors normalised the centres of annotated objects, without z, to a 10 × 10 grid (thinking-in-space issue
10). They released neither the maps, nor the code, nor the normalisation (issues 16 and 26). This module uses the
smallest square around all boxes, centred on them, because a common scale for both axes preserves directions and
distance ratios.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from render_agent.scans.camera import FloatArray
from render_agent.tasks.ground_truth import UNKNOWN_AREA, Facts

# cells per side of the grid, numbered from 0; x to the right and y upwards, as in the scene
CELLS = 10


def square_around(facts: Facts) -> tuple[FloatArray, float]:
    """Return the smallest square around all boxes: its corner with the smallest x and y, (2,), and its side, in
    metres.
    """
    bounds = np.array([box.bounds[:, :2] for boxes in facts.boxes.values() for box in boxes])
    low, high = bounds[:, 0].min(axis=0), bounds[:, 1].max(axis=0)
    side = float((high - low).max())
    return (low + high - side) / 2, side


def grid_map(facts: Facts) -> dict[str, list[list[int]]]:
    """Return a scene's map in the format of VSI-Bench's authors: grid cells [x, y], 0 to 9, by category."""
    if not any(facts.boxes.values()):
        return {}
    corner, side = square_around(facts)
    return {
        label: [
            np.clip((CELLS * (box.centre[:2] - corner) / side).astype(int), 0, CELLS - 1).tolist()
            for box in boxes
        ]
        for label, boxes in sorted(facts.boxes.items())
    }


def metric_map(facts: Facts) -> dict[str, Any]:
    """Return a scene's map in metres in the frame of the scan: object boxes and the square of the grid."""
    schema: dict[str, Any] = {
        "room_square_metres": None
        if facts.room_size == UNKNOWN_AREA
        else round(facts.room_size, 3),
        "objects": {
            label: [
                {
                    "position": _round_all(box.centre),
                    "size": _round_all(box.size),
                    "axes": [_round_all(axis) for axis in box.axes],
                }
                for box in boxes
            ]
            for label, boxes in sorted(facts.boxes.items())
        },
    }
    if any(facts.boxes.values()):
        corner, side = square_around(facts)
        schema["grid"] = {"corner": _round_all(corner), "metres_per_cell": round(side / CELLS, 4)}
    return schema


def _round_all(values: FloatArray) -> list[float]:
    return [round(float(value), 4) for value in values]
