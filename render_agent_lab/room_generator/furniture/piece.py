"""A piece of furniture under construction."""

from __future__ import annotations

from typing import Any

import numpy as np

from render_agent_lab.room_generator import shapes
from render_agent_lab.room_generator.paint import Colour, plain, wood
from render_agent_lab.room_generator.shapes import Mesh, Paint

WOODS: tuple[Colour, ...] = (
    (0.72, 0.53, 0.34),
    (0.55, 0.37, 0.22),
    (0.36, 0.23, 0.15),
    (0.84, 0.7, 0.5),
    (0.64, 0.42, 0.27),
)
CLOTHS: tuple[Colour, ...] = (
    (0.35, 0.42, 0.52),
    (0.56, 0.53, 0.49),
    (0.62, 0.28, 0.24),
    (0.33, 0.45, 0.35),
    (0.75, 0.66, 0.5),
    (0.28, 0.29, 0.33),
    (0.7, 0.55, 0.25),
    (0.45, 0.33, 0.45),
)
WHITES: tuple[Colour, ...] = ((0.93, 0.93, 0.91), (0.9, 0.88, 0.83), (0.96, 0.96, 0.96))
METALS: tuple[Colour, ...] = ((0.62, 0.64, 0.66), (0.25, 0.26, 0.28), (0.75, 0.73, 0.68))
BLACK: Colour = (0.09, 0.09, 0.1)
CHROME: Colour = (0.75, 0.77, 0.79)


class Piece:
    """Collects the parts of a piece, in its own frame.

    Metres; x points right seen from behind, the front faces -y, z is up from the surface it rests on.
    """

    def __init__(self, rng: np.random.Generator, step: float) -> None:
        self.rng = rng
        self.step = step
        self.top: float | None = None
        self.parts: list[Mesh] = []

    @property
    def mesh(self) -> Mesh:
        return shapes.merge_meshes(self.parts)

    def between(self, low: float, high: float) -> float:
        """Return a random length in metres."""
        return float(self.rng.uniform(low, high))

    def lengths(self, *ranges: tuple[float, float]) -> list[float]:
        """Return a random length in metres within each range."""
        return [self.between(low, high) for low, high in ranges]

    def chance(self, share: float) -> bool:
        """Return True with probability `share`."""
        return bool(self.rng.random() < share)

    def one_of(self, choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    @property
    def seed(self) -> int:
        return int(self.rng.integers(1 << 30))

    def timber(self, along: int = 0, colour: Colour | None = None) -> Paint:
        """Return wood with its grain along an axis, of a random species unless `colour` is given."""
        return wood(colour or self.one_of(WOODS), along, self.seed)

    def finish(self) -> Paint:
        """Return white lacquer, dark lacquer or wood."""
        if self.chance(0.35):
            return plain(self.one_of(WHITES), 0.03, self.seed)
        return self.timber(2)

    def add(self, mesh: Mesh) -> None:
        self.parts.append(mesh)

    def box(self, low: Any, high: Any, paint: Paint, coarse: float = 1.0) -> None:
        """Add a box between two corners, (3,) metres; thin bars and `coarse` ones get fewer vertices than boards."""
        sides = sorted(b - a for a, b in zip(low, high, strict=True))
        bar = 3 if sides[1] < 0.12 else 1
        self.add(shapes.box(low, high, self.step * bar * coarse, paint, unseen=5))

    def centred(self, centre: Any, size: Any, paint: Paint) -> None:
        """Add a box by its centre and its size, (3,) metres each."""
        half = [side / 2 for side in size]
        low = [c - h for c, h in zip(centre, half, strict=True)]
        self.box(low, [c + h for c, h in zip(centre, half, strict=True)], paint)

    def cushion(self, centre: Any, size: Any, paint: Paint, squareness: float = 0.35) -> None:
        """Add a cushion by its centre and size, (3,) metres each.

        `squareness` up to 0.5 gives flat sides with increasingly rounded edges, above that a superellipsoid.
        """
        half = np.asarray(size, float) / 2
        low, high = np.asarray(centre, float) - half, np.asarray(centre, float) + half
        if squareness > 0.5:
            step = max(self.step * 0.6, min(self.step, float(half.max()) / 3))
            self.add(shapes.ellipsoid(centre, half, step, paint, squareness))
        else:
            radius = 2 * squareness * float(half.min())
            self.add(shapes.rounded_box(low, high, radius, self.step * 1.4, paint))

    def pillar(
        self, x: float, y: float, radius: float, low: float, high: float, paint: Paint
    ) -> None:
        """Add an upright cylinder at (x, y), metres."""
        sides = 8 if radius < 0.05 else max(12, round(6.3 * radius / self.step))
        step = self.step * (3 if radius < 0.06 else 1)
        mesh = shapes.cylinder(radius, 0, high - low, sides, step, paint)
        self.add(mesh.moved((x, y, low)))

    def rod(self, start: Any, end: Any, radius: float, paint: Paint) -> None:
        """Add a round bar between two points, (3,) metres each."""
        self.add(shapes.rod(start, end, radius, self.step * 3, paint))

    def revolved(self, profile: Any, paint: Paint) -> None:
        """Add a surface of revolution about the upright axis from a profile of (n, 2) radius and height."""
        self.add(shapes.revolve(profile, 16, paint))

    def legs(self, width: float, depth: float, height: float, thick: float, paint: Paint) -> None:
        """Add four square legs at the corners of a footprint centred at the origin, metres."""
        for side in (-1, 1):
            for end in (-1, 1):
                x, y = side * (width - thick) / 2, end * (depth - thick) / 2
                self.centred((x, y, height / 2), (thick, thick, height), paint)

    def ball(self, centre: Any, radius: float, paint: Paint) -> None:
        """Add a ball about `centre`, (3,) metres."""
        step = min(self.step, radius * 1.2)
        self.add(shapes.ellipsoid(centre, (radius, radius, radius), step, paint))
