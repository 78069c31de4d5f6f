"""Meshes built from parts: panels, boxes, revolved and rounded shapes, with vertex colours.

Metres. Colours are sRGB in 0 to 1. Faces are counter-clockwise seen from outside. Parts share no vertices, so that edges
stay sharp.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.boxes import Array, rotation

Faces = NDArray[np.int64]
# Maps points (n, 3), in metres in the frame of the part's owner, to colours (n, 3) in 0 to 1.
Paint = Callable[[Array], Array]


@dataclass(frozen=True, eq=False)
class Mesh:
    """A surface: points (n, 3) in metres, colours (n, 3) in 0 to 1, faces (m, 3) as indices of points."""

    points: Array
    colours: Array
    faces: Faces

    @cached_property
    def bounds(self) -> Array:
        """Lowest and highest corner, (2, 3) metres."""
        return np.stack([self.points.min(0), self.points.max(0)])

    @property
    def normals(self) -> Array:
        """Unit normal at every point, (n, 3)."""
        a, b, c = (self.points[self.faces[:, corner]] for corner in range(3))
        across = np.cross(b - a, c - a)
        normals = np.zeros_like(self.points)
        for corner in range(3):
            np.add.at(normals, self.faces[:, corner], across)
        length = np.linalg.norm(normals, axis=1, keepdims=True)
        np.divide(normals, length, out=normals, where=length > 0)
        return normals

    def add_neighbours(self, values: Array, total: Array, count: Array) -> None:
        """Add the values, (n, k), of the neighbours of each vertex to `total`, (n, k), and their number to `count`, (n,)."""
        for a, b in ((0, 1), (1, 2), (2, 0)):
            for x, y in ((a, b), (b, a)):
                np.add.at(total, self.faces[:, x], values[self.faces[:, y]])
                np.add.at(count, self.faces[:, x], 1)

    def moved(self, offset: Sequence[float] | Array) -> Mesh:
        """Return the mesh translated by `offset`, (3,) metres."""
        return Mesh(self.points + np.asarray(offset, float), self.colours, self.faces)

    def turned(self, degrees: float) -> Mesh:
        """Return the mesh rotated about the z axis, counter-clockwise seen from above."""
        return Mesh(self.points @ rotation(degrees).T, self.colours, self.faces)


def merge_meshes(meshes: Sequence[Mesh]) -> Mesh:
    starts = np.cumsum([0, *(len(mesh.points) for mesh in meshes)])
    return Mesh(
        np.concatenate([mesh.points for mesh in meshes]),
        np.concatenate([mesh.colours for mesh in meshes]),
        np.concatenate([mesh.faces + start for mesh, start in zip(meshes, starts, strict=False)]),
    )


def subdivide(low: float, high: float, step: float, *between: float) -> Array:
    """Return coordinates from `low` to `high`, at most `step` apart, that include `between`."""
    stops = sorted({low, high, *(value for value in between if low < value < high)})
    pieces = [
        np.linspace(start, stop, max(1, math.ceil((stop - start) / step - 1e-9)) + 1)[:-1]
        for start, stop in pairwise(stops)
    ]
    return np.concatenate([*pieces, [high]])


def lattice_surface(
    # (rows, columns, 3); the front is the side from which rows go up and columns go right
    points: Array,
    paint: Paint,
    # (rows - 1, columns - 1) mask of the cells to keep; None keeps all
    keep: NDArray[np.bool_] | None = None,
) -> Mesh:
    """Return the surface through a lattice of points."""
    return paint_lattices([(points, keep)], paint)


def paint_lattices(
    lattices: Sequence[tuple[Array, NDArray[np.bool_] | None]], paint: Paint
) -> Mesh:
    """Return the surfaces through several lattices (see `lattice_surface`) as one mesh with one paint."""
    parts, faces, start = [], [], 0
    for points, keep in lattices:
        flat, cells = points.reshape(-1, 3), _triangles(points.shape[0], points.shape[1], keep)
        if keep is not None:
            used, cells = np.unique(cells, return_inverse=True)
            flat, cells = flat[used], cells.reshape(-1, 3)
        parts.append(flat)
        faces.append(cells + start)
        start += len(flat)
    whole = np.concatenate(parts)
    return Mesh(whole, np.clip(paint(whole), 0, 1), np.concatenate(faces))


def _triangles(rows: int, columns: int, keep: NDArray[np.bool_] | None) -> Faces:
    index = np.arange(rows * columns).reshape(rows, columns)
    corners = np.stack([index[:-1, :-1], index[:-1, 1:], index[1:, 1:], index[1:, :-1]], -1)
    cells = corners.reshape(-1, 4) if keep is None else corners[keep]
    return np.concatenate([cells[:, [0, 1, 2]], cells[:, [0, 2, 3]]])


def panel(
    origin: Any,  # a corner, (3,) metres
    right: Any,  # one side, (3,) metres
    up: Any,  # the other side, (3,) metres
    step: float,  # vertex spacing in metres
    paint: Paint,
) -> Mesh:
    """Return a flat parallelogram that faces right × up."""
    return lattice_surface(_parallelogram(origin, right, up, step), paint)


def _parallelogram(origin: Any, right: Any, up: Any, step: float) -> Array:
    origin, right, up = (np.asarray(value, float) for value in (origin, right, up))
    u = _share(step, right)
    v = _share(step, up)
    points: Array = origin + u[None, :, None] * right + v[:, None, None] * up
    return points


def _share(step: float, side: Array) -> Array:
    cells = max(1, math.ceil(math.sqrt(float(side @ side)) / step - 1e-9))
    return np.linspace(0, 1, cells + 1)


def box(low: Any, high: Any, step: float, paint: Paint, unseen: float = 1.0) -> Mesh:
    """Return a box between two corners, (3,) metres; `unseen` multiplies the vertex spacing of its back and bottom."""
    (x, y, z), (a, b, c) = low, high
    w, d, h = a - x, b - y, c - z
    sides = [
        ((x, y, z), (w, 0, 0), (0, 0, h), 1.0),
        ((a, y, z), (0, d, 0), (0, 0, h), 1.0),
        ((a, b, z), (-w, 0, 0), (0, 0, h), unseen),
        ((x, b, z), (0, -d, 0), (0, 0, h), 1.0),
        ((x, y, c), (w, 0, 0), (0, d, 0), 1.0),
        ((x, b, z), (w, 0, 0), (0, -d, 0), unseen),
    ]
    return paint_lattices(
        [(_parallelogram(*side[:3], step * side[3]), None) for side in sides], paint
    )


def rounded_box(low: Any, high: Any, radius: float, step: float, paint: Paint) -> Mesh:
    """Return a box with edges rounded by `radius` metres between two corners, (3,) metres each."""
    low, high = np.asarray(low, float), np.asarray(high, float)
    radius = min(radius, float((high - low).min()) / 2)
    parts: list[tuple[Array, NDArray[np.bool_] | None]] = []
    cuts = [
        subdivide(a, b, step, a + radius * 0.35, a + radius, b - radius, b - radius * 0.35)
        for a, b in zip(low, high, strict=True)
    ]
    for axis, top in ((0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)):
        right, up = ((axis + 1) % 3, (axis + 2) % 3)
        if not top:
            right, up = up, right
        points = np.empty((len(cuts[up]), len(cuts[right]), 3))
        points[..., axis] = high[axis] if top else low[axis]
        points[..., right], points[..., up] = np.meshgrid(cuts[right], cuts[up])
        core = np.clip(points, low + radius, high - radius)
        out = points - core
        length = np.linalg.norm(out, axis=-1, keepdims=True)
        parts.append((core + out * (radius / length), None))
    return paint_lattices(parts, paint)


def revolve(profile: Any, sides: int, paint: Paint) -> Mesh:
    """Return the surface of revolution about the z axis of a profile, (n, 2) radius and height, bottom-up."""
    profile = np.asarray(profile, float)
    angle = np.radians(np.linspace(0, 360.0, sides + 1))
    ring = np.stack([np.cos(angle), np.sin(angle)], -1)
    points = np.concatenate(
        [
            profile[:, None, :1] * ring[None],
            np.broadcast_to(profile[:, None, 1:], (len(profile), sides + 1, 1)),
        ],
        -1,
    )
    return lattice_surface(points, paint)


def cylinder(radius: float, low: float, high: float, sides: int, step: float, paint: Paint) -> Mesh:
    """Return a closed upright cylinder about the z axis; radius and heights in metres."""
    heights = subdivide(low, high, step)
    inner = subdivide(0, radius, max(step, radius / 3))
    profile = [
        *((r, low) for r in inner[:-1]),
        *((radius, low),),
        *((radius, height) for height in heights),
        *((radius, high),),
        *((r, high) for r in inner[::-1][1:]),
    ]
    bottom = len(inner)
    top = bottom + len(heights)
    return merge_meshes(
        [
            revolve(profile[:bottom], sides, paint),
            revolve(profile[bottom:top], sides, paint),
            revolve(profile[top:], sides, paint),
        ]
    )


def ellipsoid(centre: Any, radii: Any, step: float, paint: Paint, squareness: float = 1.0) -> Mesh:
    """Return a superellipsoid (Barr 1981) about `centre`, (3,) metres.

    `radii` is (3,) metres. `squareness` 1 gives an ellipsoid; towards 0 it becomes a box with soft edges.
    """
    radii = np.asarray(radii, float)
    around = max(10, math.ceil(math.pi * (radii[0] + radii[1]) / step))
    across = max(6, math.ceil(math.pi / 2 * (min(radii[:2]) + radii[2]) / step))
    theta = np.linspace(-math.pi / 2, math.pi / 2, across + 1)[:, None]
    phi = np.linspace(-math.pi, math.pi, around + 1)[None, :]

    def bend(value: Array) -> Array:
        rounded: Array = np.sign(value) * np.abs(value) ** squareness
        return rounded

    cosine = bend(np.cos(theta))
    unit = np.stack(
        [
            cosine * bend(np.cos(phi)),
            cosine * bend(np.sin(phi)),
            np.broadcast_to(bend(np.sin(theta)), (across + 1, around + 1)),
        ],
        -1,
    )
    return lattice_surface(np.asarray(centre, float) + unit * radii, paint)


def rod(start: Any, end: Any, radius: float, step: float, paint: Paint, sides: int = 6) -> Mesh:
    """Return an open round bar between two points, (3,) metres each."""
    start, end = np.asarray(start, float), np.asarray(end, float)
    along = (end - start) / np.linalg.norm(end - start)
    helper = np.array([0.0, 0.0, 1.0]) if abs(along[2]) < 0.9 else np.array([1.0, 0.0, 0.0])
    right = np.cross(helper, along)
    right /= np.linalg.norm(right)
    up = np.cross(along, right)
    angle = np.linspace(0, 2 * math.pi, sides + 1)
    ring = radius * (np.cos(angle)[:, None] * right + np.sin(angle)[:, None] * up)
    stops = subdivide(0, 1, step / float(np.linalg.norm(end - start)))
    return lattice_surface(start + stops[:, None, None] * (end - start) + ring[None], paint)
