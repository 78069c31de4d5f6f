"""A stand-in for a scan: the room that the official annotations describe, as labelled boxes."""

from __future__ import annotations

import colorsys
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.errors import SceneError
from render_agent.scene.model import Scene
from render_agent.scene.stand_in.annotations import BoxedObject, SceneAnnotation
from render_agent.scene.stand_in.floor import Floor, floor_under
from render_agent.scene.stand_in.lettering import traced

FloatArray = NDArray[np.float64]

WALL_METRES = 0.5
"""The height of the walls, low enough to look over."""

ROOM_HEIGHT_METRES = 2.6
"""At least so high above the floor a camera may rise."""

WIDEST_METRES = 200.0
"""Boxes that lie farther apart than this are a fault of the annotations."""

TILE_METRES = 0.5
TILE_COLOURS = ((206, 203, 196), (186, 182, 174))
WALL_COLOUR = (226, 222, 214)
INK_COLOURS = ((20, 20, 24), (250, 250, 246))

LETTER_METRES = 0.005, 0.3
"""Letters that came out lower are left out, none are higher."""

PROUD_METRES = 0.003
"""Metres that letters stand off their face."""

BAR_METRES = 0.03
"""How thick the edges are of a box that holds another one."""

STRIP_METRES = 0.15
"""At most so high are the strips on such a box that carry its name."""

LIGHT = np.array([0.35, 0.2, 0.9])


@dataclass(frozen=True, eq=False)
class _Quads:
    """Rectangles, each with corners of its own: corners (n, 4, 3) metres, colours (n, 3) uint8."""

    corners: FloatArray
    colours: NDArray[np.uint8]


def annotated_scene(annotation: SceneAnnotation, source: Path | None = None) -> Scene:
    """Return the room of an annotation: every box in its category's colour with its name on it.

    The floor has exactly the annotated area and lies at the lowest corner of all boxes; its tiles
    are half a metre wide; the walls around it are low. A box that holds another one is drawn as its
    edges. World frame: that of the annotations. SceneError where there are no boxes, or they lie
    too far apart to be one room.
    """
    things = annotation.objects
    if not things:
        raise SceneError(f"the annotations of scene {annotation.scene} hold no boxes to build")
    corners = np.array([thing.corners for thing in things])
    if np.ptp(corners.reshape(-1, 3), axis=0).max() > WIDEST_METRES:
        raise SceneError(f"the boxes of scene {annotation.scene} do not lie in one room")
    level = float(corners[:, :, 2].min())
    edges = np.concatenate([thing.axes[:, :2] * thing.size[:, None] for thing in things])
    floor = floor_under(corners, edges, annotation.room_size)
    parts = [_floor(floor, level), _walls(floor, level)]
    for thing, holds in zip(things, _holders(things, corners), strict=True):
        colour = category_colour(thing.label)
        faces = list(_Face.all(thing))
        if holds:
            parts.append(_edges(thing, colour))
            faces = [face.strip() for face in faces if face.normal[2] > -0.7]
        parts.append(_faces(faces, colour))
        parts.append(_names(thing.label, faces, colour))
    return _scene(annotation.scene, parts, level, source)


def category_colour(label: str) -> NDArray[np.uint8]:
    """Return the colour, (3,) RGB, of a category: always the same, bright, from its name alone."""
    digest = hashlib.sha256(label.encode()).digest()
    hue = int.from_bytes(digest[:2], "big") / 65536
    colour = colorsys.hsv_to_rgb(hue, 0.45 + digest[2] / 255 * 0.45, 0.65 + digest[3] / 255 * 0.3)
    return np.round(255 * np.array(colour)).astype(np.uint8)


@dataclass(frozen=True, eq=False)
class _Face:
    """One side of a box as one sees it from outside: its middle, right and up (unit), width, height."""

    middle: FloatArray
    right: FloatArray
    up: FloatArray
    width: float
    height: float

    @cached_property
    def normal(self) -> FloatArray:
        return _crossed(self.right, self.up)

    @classmethod
    def all(cls, thing: BoxedObject) -> Iterable[_Face]:
        """Give the six faces; up is what is nearest to the world's z, or to its y on level faces."""
        for axis in range(3):
            for side in (-1.0, 1.0):
                normal = side * thing.axes[axis]
                others = [(axis + 1) % 3, (axis + 2) % 3]
                wanted = (0.0, 1.0, 0.0) if abs(normal[2]) > 0.7 else (0.0, 0.0, 1.0)
                if abs(normal[2]) > 0.7:
                    # On level faces a name runs along the longer side.
                    others.sort(key=lambda other: thing.size[other])
                else:
                    others.sort(key=lambda other: -abs(thing.axes[other, 2]))
                rising, across = others
                up = thing.axes[rising]
                up = up if up @ wanted >= 0 else -up
                yield cls(
                    thing.centre + normal * thing.size[axis] / 2,
                    _crossed(up, normal),
                    up,
                    float(thing.size[across]),
                    float(thing.size[rising]),
                )

    def strip(self) -> _Face:
        """Return the upper part of the face, enough for a name."""
        height = min(STRIP_METRES, 0.25 * self.height)
        middle = self.middle + self.up * (self.height - height) / 2
        return replace(self, middle=middle, height=height)

    def quads(self, rectangles: FloatArray, off: float = 0.0) -> FloatArray:
        """Return rectangles, (k, 4) left, bottom, right, top in metres, on the face: (k, 4, 3)."""
        x, y = rectangles[:, [0, 2, 2, 0], None], rectangles[:, [1, 1, 3, 3], None]
        placed: FloatArray = self.middle + self.normal * off + x * self.right + y * self.up
        return placed


def _crossed(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the cross product of two vectors, (3,); np.cross takes twenty times as long."""
    (a, b, c), (x, y, z) = first.tolist(), second.tolist()
    return np.array([b * z - c * y, c * x - a * z, a * y - b * x])


def _faces(faces: Iterable[_Face], colour: NDArray[np.uint8]) -> _Quads:
    """Return whole faces, each a little lighter or darker by the way it looks."""
    listed = list(faces)
    halves = [(face.width / 2, face.height / 2) for face in listed]
    corners = [
        face.quads(np.array([[-width, -height, width, height]]))
        for face, (width, height) in zip(listed, halves, strict=True)
    ]
    light = LIGHT / np.linalg.norm(LIGHT)
    shades = np.array([0.8 + 0.2 * float(face.normal @ light) for face in listed])
    return _Quads(np.concatenate(corners), _coloured(shades[:, None] * colour))


def _edges(thing: BoxedObject, colour: NDArray[np.uint8]) -> _Quads:
    """Return a box as the twelve bars of its edges, inside of its outline."""
    bar = np.minimum(BAR_METRES, thing.size / 3)
    bars = []
    for axis in range(3):
        first, second = (axis + 1) % 3, (axis + 2) % 3
        size = bar.copy()
        size[axis] = thing.size[axis]
        for sides in ((-1, -1), (-1, 1), (1, -1), (1, 1)):
            offset = np.zeros(3)
            offset[[first, second]] = np.array(sides) * (thing.size - bar)[[first, second]] / 2
            bars.append(
                BoxedObject(thing.centre + offset @ thing.axes, size, thing.axes, thing.label)
            )
    parts = [_faces(_Face.all(bar), colour) for bar in bars]
    return _joined(parts)


def _names(label: str, faces: Iterable[_Face], colour: NDArray[np.uint8]) -> _Quads:
    """Return the name of a category on each face that has room for it."""
    words = traced(label)
    wide = float(words[:, 2].max() - words[:, 0].min()) if len(words) else 1.0
    parts = []
    for face in faces:
        height = min(0.9 * face.width / wide, 0.7 * face.height, LETTER_METRES[1])
        if height >= LETTER_METRES[0]:
            parts.append(face.quads(words * height, PROUD_METRES))
    corners = np.concatenate([np.empty((0, 4, 3)), *parts])
    bright = float(colour @ np.array([0.299, 0.587, 0.114])) > 120
    return _Quads(
        corners, np.tile(np.array(INK_COLOURS[0 if bright else 1], np.uint8), (len(corners), 1))
    )


def _holders(things: tuple[BoxedObject, ...], corners: FloatArray) -> NDArray[np.bool_]:
    """Return which boxes, (n,), hold another one wholly; corners: (n, 8, 3) metres."""
    holds_another = np.zeros(len(things), bool)
    volumes = np.array([thing.size.prod() for thing in things])
    for number, thing in enumerate(things):
        local = np.abs((corners - thing.centre) @ thing.axes.T)
        inside = (local <= thing.size / 2 + 1e-3).all(axis=(1, 2))
        holds_another[number] = bool((inside & (volumes < volumes[number])).any())
    return holds_another


def _floor(floor: Floor, level: float) -> _Quads:
    tiles = (
        np.floor((floor.cells + 0.5) * floor.side / TILE_METRES).sum(axis=1).astype(np.int64) % 2
    )
    return _Quads(_raised(floor.squares(), level), np.array(TILE_COLOURS, np.uint8)[tiles])


def _walls(floor: Floor, level: float) -> _Quads:
    ends = floor.border()
    low, high = _raised(ends, level), _raised(ends, level + WALL_METRES)
    corners = np.concatenate([low, high[:, ::-1]], axis=1)
    along = np.abs((ends[:, 1] - ends[:, 0]) @ floor.turn.T)
    shades = np.where(along[:, 0] > along[:, 1], 1.0, 0.9)
    return _Quads(corners, _coloured(shades[:, None] * np.array(WALL_COLOUR)))


def _raised(places: FloatArray, height: float) -> FloatArray:
    """Return places (…, 2) as (…, 3) at a height in metres."""
    raised: FloatArray = np.insert(places, 2, height, axis=-1)
    return raised


def _coloured(values: NDArray[Any]) -> NDArray[np.uint8]:
    return np.clip(np.round(values), 0, 255).astype(np.uint8)


def _joined(parts: Iterable[_Quads]) -> _Quads:
    listed = list(parts)
    return _Quads(
        np.concatenate([part.corners for part in listed]),
        np.concatenate([part.colours for part in listed]),
    )


def _scene(name: str, parts: list[_Quads], level: float, source: Path | None) -> Scene:
    quads = _joined(parts)
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
