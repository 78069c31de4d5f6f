"""Meters: how measured lengths, angles and points are read. `FaultyMeter` errs by a controlled amount (`--tools`)."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

from render_agent.scans.camera import FloatArray, Vector


class Meter:
    """Reads exact values."""

    def length(self, metres: float) -> float:
        """Return the reading of a length."""
        return metres

    def angle(self, degrees: float) -> float:
        """Return the reading of an angle."""
        return degrees

    def point(self, point: FloatArray, origin: Vector) -> FloatArray:
        """Return the reading of a point, (3,) metres, measured from `origin`."""
        return point


EXACT = Meter()


@dataclass(frozen=True, eq=False)
class FaultyMeter(Meter):
    """Scales every length by 1 + bias, and every length and angle by 1 + noise times a standard normal number."""

    noise: float
    bias: float
    chance: random.Random

    def length(self, metres: float) -> float:
        return max(0.0, metres * (1 + self.bias) * self._factor())

    def angle(self, degrees: float) -> float:
        return degrees * self._factor()

    def point(self, point: FloatArray, origin: Vector) -> FloatArray:
        """Move a point along the line from `origin`."""
        start = np.array(origin)
        read: FloatArray = start + (point - start) * ((1 + self.bias) * self._factor())
        return read

    def _factor(self) -> float:
        return 1 + self.noise * self.chance.gauss(0, 1)
