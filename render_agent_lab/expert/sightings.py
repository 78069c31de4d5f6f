"""Sightings: decides which boxes count as shown, by the pixels they cover on a map or in an image.

Cheaper than the rule of `object_visibility`: objects are not rendered alone, so a mostly hidden one counts as soon as
enough of it is visible.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from render_agent.dialogue.chat import View
from render_agent.render.renderer import Renderer
from render_agent.scans.camera import MapCamera
from render_agent.visibility.room_visibility import RoomVisibility
from render_agent_lab.expert.derive import Knowledge

MIN_MAP_SHARE = 40 / (320 * 240)  # share of a map's pixels from which an object counts as shown

# Share of a map's pixels below which an object deserves a closer look.
CLEAR_MAP_SHARE = 150 / (320 * 240)

MIN_IMAGE_SHARE = 0.0015  # share of an image's pixels (or of all four directions) from which an object counts as shown

Shares = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Sightings:
    """Largest share of map pixels and of image pixels that each box of a room covered, (boxes,) each."""

    on_map: Shares
    in_image: Shares

    @property
    def shown(self) -> NDArray[np.bool_]:
        """Mask of boxes shown on a map or in an image, (boxes,)."""
        mask: NDArray[np.bool_] = (self.on_map >= MIN_MAP_SHARE) | self.seen
        return mask

    @property
    def seen(self) -> NDArray[np.bool_]:
        """Mask of boxes shown in an image, (boxes,)."""
        in_image: NDArray[np.bool_] = self.in_image >= MIN_IMAGE_SHARE
        return in_image


def measure_sightings(room: RoomVisibility, views: Iterable[View], renderer: Renderer) -> Sightings:
    """Measure the visibility of a room's boxes in the given views. Raises RenderError if a view cannot be rendered."""
    on_map, in_image = np.zeros(len(room.labels)), np.zeros(len(room.labels))
    pixels = room.size[0] * room.size[1]
    for view in dict.fromkeys(views):
        best_shares = on_map if isinstance(view.camera, MapCamera) else in_image
        np.maximum(best_shares, room.areas(view, renderer) / pixels, out=best_shares)
    return Sightings(on_map, in_image)


def make_knowledge(
    room: RoomVisibility, sightings: Sightings, extents: Iterable[tuple[float, float]]
) -> Knowledge:
    """Return the facts that the views of a room have shown. Pass the `extents` of its rooms if one of the views was a
    map.
    """
    boxes = [box for group in room.facts.boxes.values() for box in group]
    counts: dict[str, list[int]] = {}
    for number in np.flatnonzero(sightings.shown):
        counts.setdefault(room.labels[number], []).append(int(number))
    boxes_by_name = {name: [boxes[number] for number in group] for name, group in counts.items()}
    return Knowledge(boxes_by_name, tuple(extents))
