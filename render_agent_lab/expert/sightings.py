"""Sightings: which boxes the expert counts as shown, by their pixels on a map or in a picture.

Cheaper than the rule of the witness: no object is drawn alone, so that one that is mostly hidden
counts as soon as enough of it is in sight.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from render_agent.dialogue.view import View
from render_agent.render.renderer import Renderer
from render_agent.render.visibility.room_visibility import Room
from render_agent.scans.camera import MapCamera
from render_agent_lab.expert.derive import Knowledge

LEAST_ON_MAP = 40 / (320 * 240)
"""Of a map's pixels: an object that covers as many is told there."""

SURE_ON_MAP = 150 / (320 * 240)
"""Of a map's pixels: one that covers fewer is worth a look from where one stands."""

LEAST_PICTURED = 0.0015
"""Of the pixels of what the camera sees, or of all four directions: an object is told there."""

Shares = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Sightings:
    """How well each box of a room was shown at best: shares of a map and of a picture, (boxes,) each."""

    on_map: Shares
    pictured: Shares

    @property
    def shown(self) -> NDArray[np.bool_]:
        """Which boxes were shown, (boxes,)."""
        shown: NDArray[np.bool_] = (self.on_map >= LEAST_ON_MAP) | self.seen
        return shown

    @property
    def seen(self) -> NDArray[np.bool_]:
        """Which boxes a picture showed, (boxes,)."""
        pictured: NDArray[np.bool_] = self.pictured >= LEAST_PICTURED
        return pictured


def sightings(room: Room, views: Iterable[View], renderer: Renderer) -> Sightings:
    """Return the visibility of a room's boxes in some views. RenderError where one of them cannot be drawn."""
    on_map, pictured = np.zeros(len(room.labels)), np.zeros(len(room.labels))
    pixels = room.size[0] * room.size[1]
    for view in dict.fromkeys(views):
        best = on_map if isinstance(view.camera, MapCamera) else pictured
        np.maximum(best, room.areas(view, renderer) / pixels, out=best)
    return Sightings(on_map, pictured)


def knowledge_of(
    room: Room, sighted: Sightings, extents: Iterable[tuple[float, float]]
) -> Knowledge:
    """Return what is known of a room from its views; extents: of its rooms, given where one of the views was a map."""
    boxes = [box for some in room.facts.boxes.values() for box in some]
    counts: dict[str, list[int]] = {}
    for number in np.flatnonzero(sighted.shown):
        counts.setdefault(room.labels[number], []).append(int(number))
    known = {name: [boxes[number] for number in some] for name, some in counts.items()}
    return Knowledge(known, tuple(extents))
