"""A piece of furniture at its place."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from render_agent.scans.boxes import Array, OrientedBox, rotation, upright
from render_agent_lab.room_generator.furniture.catalogue import Built
from render_agent_lab.room_generator.shapes import Mesh


@dataclass(frozen=True, eq=False)
class Item:
    """A built piece that stands somewhere.

    position: (3,) metres, world frame, of the point under the middle of its footprint. turn:
    degrees counter-clockwise; at 0 its front faces -y. support: the item that it stands on.
    """

    built: Built
    position: Array
    turn: float
    room: int
    support: Item | None = None

    @property
    def label(self) -> str:
        """What people call it."""
        return self.built.label

    @cached_property
    def box(self) -> OrientedBox:
        """The tight box around it along its own axes."""
        low, high = self.built.mesh.bounds
        return upright(low, high, self.turn, self.position)

    @property
    def mesh(self) -> Mesh:
        """Its surface in the world."""
        return self.built.mesh.turned(self.turn).moved(self.position)

    @property
    def front(self) -> Array:
        """The way it faces, (2,) unit length."""
        return self.direction(0, -1)

    def direction(self, right: float, back: float) -> Array:
        """Return a direction of its own frame in the world, (2,)."""
        turned: Array = (rotation(self.turn) @ np.array([right, back, 0.0]))[:2]
        return turned

    def point(self, right: float, back: float) -> Array:
        """Return the point that lies `right` and `back` metres from its middle, (2,)."""
        there: Array = self.position[:2] + self.direction(right, back)
        return there

    @property
    def size(self) -> Array:
        """Width, depth and height, (3,) metres."""
        low, high = self.built.mesh.bounds
        size: Array = high - low
        return size
