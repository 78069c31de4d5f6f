"""A piece of furniture at a position."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from render_agent.scans.boxes import Array, OrientedBox, rotation, upright_box
from render_agent_lab.room_generator.furniture.catalogue import BuiltPiece
from render_agent_lab.room_generator.shapes import Mesh


@dataclass(frozen=True, eq=False)
class Item:
    """A placed piece of furniture."""

    built: BuiltPiece
    position: Array  # point below the centre of its footprint, (3,) metres, world frame
    turn: float  # rotation in degrees, counter-clockwise; at 0 the front faces -y.
    room: int
    support: Item | None = None  # the item it stands on

    @property
    def label(self) -> str:
        """The label used in questions."""
        return self.built.label

    @cached_property
    def box(self) -> OrientedBox:
        """Tight bounding box along its own axes."""
        low, high = self.built.mesh.bounds
        return upright_box(low, high, self.turn, self.position)

    @property
    def mesh(self) -> Mesh:
        """Its surface in the world frame."""
        return self.built.mesh.turned(self.turn).moved(self.position)

    @property
    def front(self) -> Array:
        """Direction of its front, unit vector (2,)."""
        return self.direction(0, -1)

    def direction(self, right: float, back: float) -> Array:
        """Transform a direction, (2,), from the item's frame to the world frame."""
        turned: Array = (rotation(self.turn) @ np.array([right, back, 0.0]))[:2]
        return turned

    def point(self, right: float, back: float) -> Array:
        """Return the point `right` and `back` metres from its centre, (2,)."""
        point: Array = self.position[:2] + self.direction(right, back)
        return point

    @property
    def size(self) -> Array:
        """Width, depth and height, (3,) metres."""
        low, high = self.built.mesh.bounds
        size: Array = high - low
        return size
