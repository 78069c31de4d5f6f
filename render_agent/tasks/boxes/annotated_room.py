"""Builds a stand-in for a scan from VSI-Bench's annotations: a room of coloured boxes."""

from __future__ import annotations

import colorsys
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.errors import SceneError
from render_agent.scans.boxes import OrientedBox
from render_agent.scans.scene import Scene
from render_agent.tasks.boxes.annotations import BoxedObject, SceneAnnotation

FloatArray = NDArray[np.float64]

WALL_METRES = 0.5  # wall height, low enough to see over
# Minimum height of the bounds above the floor, so that the camera can rise.
ROOM_HEIGHT_METRES = 2.6
MAX_WIDTH_METRES = 200.0  # boxes spread wider than this indicate faulty annotations

CELL_METRES = 0.2  # approximate side of the floor's cells
TILE_METRES = 0.5
TILE_COLOURS = ((206, 203, 196), (186, 182, 174))
WALL_COLOUR = (226, 222, 214)

BAR_METRES = 0.03  # thickness of the edges of a box that contains another

# corner indices around each face of a box: lower and upper end of axes 0, 1, 2
BOX_FACES = np.array(
    [[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]]
)

LIGHT = np.array([0.35, 0.2, 0.9])  # direction of the light that shades the boxes


@dataclass(frozen=True, eq=False)
class _Quads:
    """Separate rectangles: corners (n, 4, 3) in metres, colours (n, 3) uint8."""

    corners: FloatArray
    colours: NDArray[np.uint8]


def build_annotated_room(annotation: SceneAnnotation, source: Path | None = None) -> Scene:
    """Build the room of an annotation, with every box in its category's colour.

    The floor has exactly the annotated area, half-metre tiles and low walls, and is at the height of the lowest box
    corner. Only the edges are drawn of a box that contains another one. The world frame is that of the annotations.
    """
    boxes = annotation.objects
    if not boxes:
        raise SceneError(f"the annotations of scene {annotation.scene} contain no boxes")
    corners = np.array([box.corners for box in boxes])
    if np.ptp(corners.reshape(-1, 3), axis=0).max() > MAX_WIDTH_METRES:
        raise SceneError(
            f"the boxes of scene {annotation.scene} are more than {MAX_WIDTH_METRES:g} m apart, too far for one room"
        )
    level = float(corners[:, :, 2].min())
    edges = np.concatenate([box.axes[:, :2] * box.size[:, None] for box in boxes])
    floor = floor_under(corners, edges, annotation.room_size)
    parts = [_floor(floor, level), _walls(floor, level)]
    for box, holds in zip(boxes, _holders(boxes, corners), strict=True):
        colour = category_colour(box.label)
        parts.append(_edges(box, colour) if holds else _box(box, colour))
    return _scene(annotation.scene, parts, level, source)


def category_colour(label: str) -> NDArray[np.uint8]:
    """Return a bright colour, (3,) RGB, that depends only on the category's name."""
    digest = hashlib.sha256(label.encode()).digest()
    hue = int.from_bytes(digest[:2], "big") / 65536
    colour = colorsys.hsv_to_rgb(hue, 0.45 + digest[2] / 255 * 0.45, 0.65 + digest[3] / 255 * 0.3)
    return np.round(255 * np.array(colour)).astype(np.uint8)


def _box(box: OrientedBox, colour: NDArray[np.uint8]) -> _Quads:
    """Return the six faces of a box, shaded by their direction."""
    normals = np.repeat(box.axes, 2, axis=0) * np.tile([-1.0, 1.0], 3)[:, None]
    brightness = 0.8 + 0.2 * normals @ (LIGHT / np.linalg.norm(LIGHT))
    return _Quads(box.corners[BOX_FACES], _to_uint8(brightness[:, None] * colour))


def _edges(box: BoxedObject, colour: NDArray[np.uint8]) -> _Quads:
    """Return the twelve edges of a box as bars inside its outline."""
    bar = np.minimum(BAR_METRES, box.size / 3)
    bars = []
    for axis in range(3):
        first, second = (axis + 1) % 3, (axis + 2) % 3
        size = bar.copy()
        size[axis] = box.size[axis]
        for sides in ((-1, -1), (-1, 1), (1, -1), (1, 1)):
            offset = np.zeros(3)
            offset[[first, second]] = np.array(sides) * (box.size - bar)[[first, second]] / 2
            bars.append(OrientedBox(box.centre + offset @ box.axes, size, box.axes))
    return _join(_box(bar, colour) for bar in bars)


def _holders(boxes: tuple[BoxedObject, ...], corners: FloatArray) -> NDArray[np.bool_]:
    """Return which boxes completely contain another one, (n,) bool; corners: (n, 8, 3) metres."""
    holds_another = np.zeros(len(boxes), bool)
    volumes = np.array([box.size.prod() for box in boxes])
    for number, box in enumerate(boxes):
        local = np.abs((corners - box.centre) @ box.axes.T)
        inside = (local <= box.size / 2 + 1e-3).all(axis=(1, 2))
        holds_another[number] = bool((inside & (volumes < volumes[number])).any())
    return holds_another


def _floor(floor: Floor, level: float) -> _Quads:
    tiles = (
        np.floor((floor.cells + 0.5) * floor.side / TILE_METRES).sum(axis=1).astype(np.int64) % 2
    )
    return _Quads(_add_height(floor.squares(), level), np.array(TILE_COLOURS, np.uint8)[tiles])


def _walls(floor: Floor, level: float) -> _Quads:
    ends = floor.border()
    low, high = _add_height(ends, level), _add_height(ends, level + WALL_METRES)
    corners = np.concatenate([low, high[:, ::-1]], axis=1)
    lengths = np.abs((ends[:, 1] - ends[:, 0]) @ floor.turn.T)
    brightness = np.where(lengths[:, 0] > lengths[:, 1], 1.0, 0.9)
    return _Quads(corners, _to_uint8(brightness[:, None] * np.array(WALL_COLOUR)))


def _add_height(places: FloatArray, height: float) -> FloatArray:
    """Return places (…, 2) as (…, 3), with z set to a height in metres."""
    result: FloatArray = np.insert(places, 2, height, axis=-1)
    return result


def _to_uint8(values: NDArray[Any]) -> NDArray[np.uint8]:
    return np.clip(np.round(values), 0, 255).astype(np.uint8)


def _join(parts: Iterable[_Quads]) -> _Quads:
    quads = list(parts)
    return _Quads(
        np.concatenate([part.corners for part in quads]),
        np.concatenate([part.colours for part in quads]),
    )


def _scene(name: str, parts: list[_Quads], level: float, source: Path | None) -> Scene:
    quads = _join(parts)
    points = quads.corners.reshape(-1, 3)
    first = 4 * np.arange(len(quads.corners), dtype=np.int32)[:, None, None]
    faces = (first + np.array([[0, 1, 2], [0, 2, 3]], np.int32)).reshape(-1, 3)
    bounds = np.array([points.min(axis=0), points.max(axis=0)])
    bounds[1, 2] = max(bounds[1, 2], level + ROOM_HEIGHT_METRES)
    return Scene(
        id=name,
        points=points.astype(np.float32),
        colours=np.repeat(quads.colours, 4, axis=0),
        faces=faces,
        floor=level,
        ceiling=float(bounds[1, 2]),
        bounds=bounds,
        source=source,
    )


@dataclass(frozen=True, eq=False)
class Floor:
    """A floor of square cells, rotated about the world's z axis."""

    cells: NDArray[np.int64]
    """(n, 2) integers, unique. A cell's lowest corner is at cell × side in the rotated frame."""
    side: float  # side of a cell in metres
    turn: FloatArray  # (2, 2), the axes of the rotated frame as rows

    @property
    def area(self) -> float:
        """Area in square metres."""
        return len(self.cells) * self.side**2

    def squares(self) -> FloatArray:
        """Return the corners of the cells, counter-clockwise, (n, 4, 2) metres, world frame."""
        offsets = np.array([[0, 0], [1, 0], [1, 1], [0, 1]])
        corners: FloatArray = (self.cells[:, None] + offsets) * self.side @ self.turn
        return corners

    def border(self) -> FloatArray:
        """Return the cell sides at the border of the floor as segments, (k, 2, 2) metres, world frame."""
        places = (self.cells - self.cells.min(axis=0) + 1).T
        occupied = np.zeros(places.max(axis=1) + 2, bool)
        occupied[tuple(places)] = True
        # the neighbour beyond each side, in the order of the corners at which the sides start
        sides = [(0, -1), (1, 0), (0, 1), (-1, 0)]
        ends = np.array([~occupied[places[0] + right, places[1] + up] for right, up in sides]).T
        number, first = np.nonzero(ends)
        squares = self.squares()
        return np.stack([squares[number, first], squares[number, (first + 1) % 4]], axis=1)


def floor_under(
    corners: FloatArray,  # corners of the boxes, (b, 8, 3) metres, world frame
    # horizontal edges of the boxes, (d, 2) metres; the floor is parallel to most of them
    directions: FloatArray,
    area: float,  # square metres
) -> Floor:
    """Construct a floor of exactly `area` square metres under boxes.

    If the area is large enough, the floor is a rectangle around the boxes; otherwise, the part of that rectangle that
    is nearest to the boxes.
    """
    turn = _turn(directions)
    count = max(1, round(area / CELL_METRES**2))
    side = float(np.sqrt(area / count))
    rotated_corners = corners[:, :, :2] @ turn.T
    low, high = rotated_corners.min(axis=1), rotated_corners.max(axis=1)
    inner = low.min(axis=0), high.max(axis=0)
    # Wide enough for the candidate cells to exceed the area, however elongated the inner rectangle is.
    margin = np.sqrt(area) / 2 + 2 * side
    first = np.floor((inner[0] - margin) / side).astype(np.int64)
    last = np.ceil((inner[1] + margin) / side).astype(np.int64)
    cells = np.stack(
        np.meshgrid(*(np.arange(a, b) for a, b in zip(first, last, strict=True)), indexing="ij"),
        axis=-1,
    ).reshape(-1, 2)
    middles = (cells + 0.5) * side
    outside = _away(middles, inner[0][None], inner[1][None])
    # Distances up to half a cell come from rounding the rectangle to whole cells.
    outside = np.where(outside <= side / 2, 0.0, outside)
    order = np.lexsort((cells[:, 0], cells[:, 1], _away(middles, low, high).round(6), outside))
    return Floor(cells[np.sort(order[:count])], side, turn)


def _turn(directions: FloatArray) -> FloatArray:
    """Return the axes, (2, 2) rows, to which most edges are parallel or perpendicular."""
    turns = directions[:, 0] + 1j * directions[:, 1]
    lengths = np.abs(turns)
    mask = lengths > 1e-9
    # The fourth power maps directions that differ by right angles to the same angle.
    mean = ((turns[mask] / lengths[mask]) ** 4 * lengths[mask]).sum() if mask.any() else 1.0
    yaw = float(np.angle(mean)) / 4 if abs(mean) > 1e-9 else 0.0
    return np.array([[np.cos(yaw), np.sin(yaw)], [-np.sin(yaw), np.cos(yaw)]])


def _away(places: FloatArray, low: FloatArray, high: FloatArray) -> NDArray[Any]:
    """Return the distance of places, (n, 2), from the nearest rectangle with corners `low` and `high`, (r, 2): (n,)
    metres.

    Uses the Chebyshev distance, so that places at equal distance from a rectangle form a rectangle.
    """
    nearest = np.full(len(places), np.inf)
    for low_corner, high_corner in zip(low, high, strict=True):
        distances = np.maximum(low_corner - places, places - high_corner).T
        nearest = np.minimum(nearest, np.maximum(np.maximum(*distances), 0.0))
    return nearest
