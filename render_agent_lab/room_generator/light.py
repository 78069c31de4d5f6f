"""Bakes light from windows and lamps into vertex colours, with shadows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.boxes import Array
from render_agent_lab.room_generator.shapes import Mesh

VOXEL = 0.075  # metres
# Offset that keeps walls at round coordinates off voxel borders.
ORIGIN = np.array([0.0131, 0.0173, 0.0117])


@dataclass(frozen=True, eq=False)
class Light:
    """A light source."""

    spots: Array  # points on the source, (k, 3) metres
    facing: Array  # main direction of the light, (3,)
    power: float  # intensity in arbitrary units
    colour: tuple[float, float, float]  # factors for red, green and blue


def bake_light(mesh: Mesh, lights: list[Light], rng: np.random.Generator) -> Mesh:
    """Return the mesh with its colours multiplied by the light received at every vertex."""
    normals = mesh.normals
    space = Space(mesh)
    start = mesh.points + 1.3 * VOXEL * normals
    sky = _openness(space, start, normals)
    received = 0.34 + 0.34 * sky[:, None] * np.ones(3)
    for light in lights:
        received += _light_from(light, space, start, normals)[:, None] * np.array(light.colour)
    received = _smooth(mesh, received)
    exposure = received / (0.43 + 0.7 * received)
    colours = np.clip(mesh.colours, 0, 1) * exposure
    glowing = mesh.colours.min(1) > 0.855
    bright = (mesh.colours[:, 0] > 0.995) & glowing
    colours = np.where(bright[:, None], mesh.colours, colours)
    return Mesh(mesh.points, np.clip(colours, 0.0, 1.0), mesh.faces)


class Space:
    """Occupancy grid of the voxels that contain surface."""

    def __init__(self, mesh: Mesh) -> None:
        samples = _samples(mesh)
        self.low = samples.min(0) - 2 * VOXEL - ORIGIN
        cells = self._cells(samples)
        self.full = np.zeros(tuple(cells.max(0) + 3), bool)
        self.full[tuple(cells.T)] = True

    def _cells(self, points: Array) -> NDArray[np.int64]:
        cells: NDArray[np.int64] = np.floor((points - self.low) / VOXEL).astype(np.int64)
        return cells

    def blocked(self, points: Array) -> NDArray[np.bool_]:
        """Return which points (n, 3) are in a voxel that contains surface, (n,)."""
        cells = self._cells(points)
        inside = ((cells >= 0) & (cells < self.full.shape)).all(1)
        is_blocked = np.zeros(len(points), bool)
        is_blocked[inside] = self.full[tuple(cells[inside].T)]
        return is_blocked

    def open_way(
        self,
        start: Array,  # start points, (n, 3) metres
        direction: Array,  # (n, 3) unit vectors
        distance: Array,  # lengths, (n,) metres
    ) -> NDArray[np.bool_]:
        """Return which straight ways are open, (n,); hits just before the end, itself perhaps a surface, do not count."""
        free = np.ones(len(start), bool)
        reach = 1.2 * VOXEL
        while len(active := np.flatnonzero(free & (reach < distance - 2.5 * VOXEL))):
            free[active[self.blocked(start[active] + reach * direction[active])]] = False
            reach += 1.2 * VOXEL
        return free


def _samples(mesh: Mesh) -> Array:
    """Sample points on the surface densely enough to hit every voxel that a face passes through."""
    a, b, c = (mesh.points[mesh.faces[:, corner]] for corner in range(3))
    sides = np.linalg.norm(np.stack([b - a, c - b, a - c]), axis=-1).max(0)
    parts = [mesh.points]
    for low, high, count in ((0.0, 0.12, 2), (0.12, 0.35, 6), (0.35, 9e9, 14)):
        chosen = (sides > low) & (sides <= high)
        for i in range(count + 1):
            for j in range(count + 1 - i):
                u, v = i / count, j / count
                parts.append((a + u * (b - a) + v * (c - a))[chosen])
    return np.concatenate(parts)


def _directions() -> Array:
    """Return directions spread evenly over the sphere (a Fibonacci lattice)."""
    count = 44
    index = np.arange(count) + 0.5
    z = 1 - 2 * index / count
    around = np.pi * (1 + 5**0.5) * index
    flat = np.sqrt(1 - z * z)
    return np.stack([flat * np.cos(around), flat * np.sin(around), z], 1)


def _openness(space: Space, start: Array, normals: Array) -> Array:
    """Return the unobstructed fraction of the hemisphere within a metre of every point, (n,), 0 to 1."""
    total, weight = np.zeros(len(start)), np.zeros(len(start))
    for direction in _directions():
        cosine = normals @ direction
        index = np.flatnonzero(cosine > 0.15)
        clear = np.ones(len(index))
        open_ = np.ones(len(index), bool)
        for step in range(1, 11):
            reach = VOXEL * step * 1.15
            hit = open_ & space.blocked(start[index] + reach * direction)
            clear[hit] = step / 11
            open_ &= ~hit
        total[index] += cosine[index] * clear
        weight[index] += cosine[index]
    return np.divide(total, weight, out=np.zeros_like(total), where=weight > 0)


def _light_from(light: Light, space: Space, start: Array, normals: Array) -> Array:
    """Return the light received at every point from one source, (n,)."""
    facing = light.facing / np.linalg.norm(light.facing)
    received = np.zeros(len(start))
    for spot in light.spots:
        direction = spot - start
        distance = np.linalg.norm(direction, axis=1)
        direction /= np.maximum(distance, 1e-6)[:, None]
        falls = (normals * direction).sum(1).clip(0) * (0.35 - 0.65 * (direction @ facing)).clip(
            0.05
        )
        strength = falls * light.power / (1.2 + distance**2) / len(light.spots)
        index = np.flatnonzero((strength > 0.004) & (distance < 9))
        free = space.open_way(start[index], direction[index], distance[index])
        received[index] += strength[index] * free
    return received


def _smooth(mesh: Mesh, values: Array) -> Array:
    """Return values (n, k) averaged twice over neighbouring vertices."""
    for _ in range(2):
        total, count = values.copy(), np.ones(len(values))
        mesh.add_neighbours(values, total, count)
        values = total / count[:, None]
    return values
