"""How much of an object a camera sees: pixels, share and distance, depth-tested.

Objects are boxes; `box_surfaces` says what of the scene's surface belongs to one. Glass hides what is
behind it, as it does in every picture of a scan.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from render_agent.geometry.boxes import OrientedBox
from render_agent.geometry.camera import Camera, FloatArray, MapCamera, Vector
from render_agent.render.around import camera_ahead, cameras_of, cell_size
from render_agent.render.base import Frame, Renderer
from render_agent.render.projection import points_under, projection
from render_agent.render.visibility.box_surfaces import MARGIN_METRES, BoxSurfaces
from render_agent.scene.model import Scene

WIDEST_PIXELS = 320
"""Pixels across at the most in which it is counted, unless asked otherwise."""

ALONE_PIXELS = 160
"""Pixels: about so high and wide an object is drawn alone."""

STEEPEST_TANGENT = 1.5
"""Tangent: an object that reaches farther from the middle of one picture is drawn in six."""

FAR_ABOVE_METRES = 1e4
"""Metres above a map's cut from which it is looked at: so high that all is seen from above."""

LEAST_SHARE, LEAST_AREA = 0.3, 0.002
"""What is seen well: this share of the object, and this part of the picture's pixels.

Looked at in the bundled rooms: with less than a quarter of it in sight, cut off by the edge or behind
something else, a stove is a line above a sofa and a chair a corner of its seat; from 0.3 on people name
what they see and can tell where it stands. And 0.002 of 640x480 is 25 pixels square, a little less than
what vision models make one token of: at half of that a clock on the wall is told, a keyboard no more.
"""


@dataclass(frozen=True, slots=True)
class Seen:
    """How one object is seen in one view.

    area: pixels that show it. share: of what would be seen of it from there with nothing in the way
    and a picture without edges, by solid angle, 0 to 1. distance: metres to its box's closest point.
    """

    area: float
    share: float
    distance: float


@dataclass(frozen=True, eq=False)
class Counted:
    """What of each box shows in a view: areas (boxes,) pixels; angles (boxes,) steradians."""

    areas: FloatArray
    angles: FloatArray

    def __add__(self, other: Counted) -> Counted:
        return Counted(self.areas + other.areas, self.angles + other.angles)


class HowSeen(Protocol):
    """How much of an object is seen, as `Seen` tells it."""

    @property
    def area(self) -> float:
        """Pixels that show it."""
        ...

    @property
    def share(self) -> float:
        """Of it, 0 to 1."""
        ...


def seen_well(seen: HowSeen, size: tuple[int, int]) -> bool:
    """Whether an object is seen well enough in a picture of `size` to be recognised and judged.

    Share and area count as they are kept: to three decimals, and to a tenth of a pixel.
    """
    return (
        round(seen.share, 3) >= LEAST_SHARE
        and round(seen.area, 1) >= LEAST_AREA * size[0] * size[1]
    )


class Sight:
    """Looks for objects of a scene in its views; owned by the thread that owns the renderer.

    boxes: of all objects that are known, in the scene's frame: what lies in two of them goes to the
    smaller. size: width and height of the pictures that areas are given for. widest: pixels across
    in which it is counted at the most. surfaces: of the boxes, found unless given.
    """

    def __init__(
        self,
        renderer: Renderer,
        scene: Scene,
        boxes: Sequence[OrientedBox],
        size: tuple[int, int],
        widest: int = WIDEST_PIXELS,
        surfaces: BoxSurfaces | None = None,
    ) -> None:
        self.renderer = renderer
        self.scene = scene
        self.boxes = list(boxes)
        self.size = size
        shrunk = min(1.0, widest / size[0])
        self.counted = max(1, round(size[0] * shrunk)), max(1, round(size[1] * shrunk))
        self._surfaces = surfaces or BoxSurfaces.of(scene, boxes)
        self._counts: dict[Vector, NDArray[np.bool_]] = {}
        self._grown = [box.grown(MARGIN_METRES) for box in boxes]
        self._alone: dict[tuple[int, bytes], Scene | NDArray[np.intp]] = {}
        self._whole: dict[tuple[int, Vector], float] = {}
        self._distances: dict[Vector, list[float]] = {}

    def look(self, camera: Camera, which: Sequence[int] | None = None) -> list[Seen]:
        """Return how each of the boxes is seen; which: their numbers, all unless given.

        RenderError where the scene cannot be drawn.
        """
        counted = self.count(self.frame(camera), camera)
        return self.seen(counted, camera.position, which)

    def frame(self, camera: Camera) -> Frame:
        """Return the view in which it is counted. RenderError where it cannot be drawn."""
        return self.renderer.draw(self.scene, camera, *self.counted)

    def count(self, frame: Frame, camera: Camera) -> Counted:
        """Return what of each box shows in a view that `frame` gave."""
        angles = pixel_angles(*self.counted, camera.vertical_fov)
        return self._sums(*self._grouped(frame, camera, camera.position), angles)

    def on_map(self, camera: MapCamera) -> Counted:
        """Return what of each box shows on a map without its grid and its trail; no angles.

        RenderError where it cannot be drawn.
        """
        scale = camera.metres_per_pixel * self.size[0] / self.counted[0]
        coarse = replace(camera, metres_per_pixel=scale)
        frame = self.renderer.draw(self.scene, coarse, *self.counted)
        above = *camera.centre, camera.height + FAR_ABOVE_METRES
        return self._sums(*self._grouped(frame, coarse, above), np.empty(0))

    def seen(
        self, counted: Counted, position: Vector, which: Sequence[int] | None = None
    ) -> list[Seen]:
        """Return how the boxes are seen of which so much shows in views taken at one place.

        RenderError where an object cannot be drawn alone.
        """
        seen_boxes, away = [], self._away(position)
        for number in range(len(self.boxes)) if which is None else which:
            area, share = float(counted.areas[number]), 0.0
            if area:
                whole = self._amodal(number, position)
                share = min(1.0, float(counted.angles[number]) / whole) if whole else 0.0
            seen_boxes.append(Seen(area, share, away[number]))
        return seen_boxes

    def sized(self, size: tuple[int, int]) -> Sight:
        """Return a Sight for pictures of another size, counted as coarsely, that shares all caches with this one."""
        other = copy(self)
        shrunk = self.counted[0] / self.size[0]
        other.size = size
        other.counted = max(1, round(size[0] * shrunk)), max(1, round(size[1] * shrunk))
        return other

    def looks(self, kind: str, camera: Camera) -> list[tuple[Sight, Camera]]:
        """Return the cameras whose pictures a view of a kind shows together, each with what counts in it.

        Those are four for `around`, each in a quarter of the picture, and the view's own for others.
        """
        if kind != "around":
            return [(self, camera)]
        quarter = self.sized(cell_size(self.size))
        return [(quarter, each) for each in cameras_of(camera_ahead(camera, self.size))]

    def forget(self) -> None:
        """Clear the caches by camera position; which surface belongs to which box stays known."""
        for cache in (self._counts, self._alone, self._whole, self._distances):
            cache.clear()

    def _grouped(
        self, frame: Frame, camera: Camera | MapCamera, position: Vector
    ) -> tuple[NDArray[np.bool_], NDArray[np.int32], NDArray[np.int32]]:
        """Return which group counts for which box from a place, the group of each piece, and the piece of each pixel."""
        if frame.primitive is not None:
            return self._counting(position), self._surfaces.groups, frame.primitive.ravel()
        surfaces, pieces = self._by_depth(frame, camera)
        return surfaces.seen_from(position), surfaces.groups, pieces

    def _sums(
        self,
        counts: NDArray[np.bool_],
        groups: NDArray[np.int32],
        pieces: NDArray[np.int32],
        angle: FloatArray,
    ) -> Counted:
        from render_agent.render.visibility.counting import tally

        weights = counts.astype(np.float64)
        scale = self.size[0] * self.size[1] / (self.counted[0] * self.counted[1])
        areas, angles = tally(groups, pieces, angle, len(counts))
        return Counted((areas @ weights) * scale, np.asarray(angles @ weights))

    def _by_depth(
        self, frame: Frame, camera: Camera | MapCamera
    ) -> tuple[BoxSurfaces, NDArray[np.int32]]:
        """Return what the surface points under the pixels belong to, and the number of each pixel's, -1 without one."""
        v, u = np.nonzero(np.isfinite(frame.depth))
        points = points_under(camera, u, v, frame.depth[v, u].astype(np.float64), self.counted)
        surfaces = BoxSurfaces.holding(points[:, None], None, self.boxes)
        pieces = np.full(frame.depth.shape, -1, np.int32)
        pieces[v, u] = np.arange(len(points))
        return surfaces, pieces.ravel()

    def _counting(self, position: Vector) -> NDArray[np.bool_]:
        if position not in self._counts:
            self._counts[position] = self._surfaces.seen_from(position)
        return self._counts[position]

    def _away(self, position: Vector) -> list[float]:
        """Return how far a place is from the closest point of each box, metres."""
        if position not in self._distances:
            self._distances[position] = self._surfaces.distances(position).tolist()
        return self._distances[position]

    def _amodal(self, number: int, position: Vector) -> float:
        """Return the solid angle that an object takes from a place with nothing else there."""
        key = number, position
        if key not in self._whole:
            alone = self._drawn_alone(number, position)
            self._whole[key] = sum(
                self._angle(alone, *view) for view in cameras_around(self._grown[number], position)
            )
        return self._whole[key]

    def _angle(
        self, alone: Scene | NDArray[np.intp], camera: Camera, width: int, height: int
    ) -> float:
        """Return the solid angle of the pixels that show a cloud, or some faces of the scene, alone."""
        from render_agent.render.visibility.counting import angle_of_faces

        if isinstance(alone, Scene):
            v, u = np.nonzero(np.isfinite(self.renderer.draw(alone, camera, width, height).depth))
            return float(_angles(u, v, width, height, camera.vertical_fov).sum())
        view, focal = projection(camera, width, height), camera.focal(height)
        mesh = self.scene.points, self.scene.faces, alone
        return float(angle_of_faces(*mesh, view.matrix, view.near, width, height, focal))

    def _drawn_alone(self, number: int, position: Vector) -> Scene | NDArray[np.intp]:
        """Return the faces of a mesh that count as an object from a place, of a cloud a scene of nothing else."""
        groups = self._counting(position)[:, number]
        key = number, groups.tobytes()
        if key not in self._alone:
            pieces, scene = self._surfaces.pieces(groups), self.scene
            self._alone[key] = (
                pieces
                if scene.faces is not None
                else replace(
                    scene,
                    points=scene.points[pieces],
                    colours=scene.colours[pieces],
                    bounds=self._grown[number].bounds,
                    gaussians=scene.gaussians and scene.gaussians.where(pieces),
                )
            )
        return self._alone[key]


def cameras_around(box: OrientedBox, position: Vector) -> list[tuple[Camera, int, int]]:
    """Return cameras at a place whose pictures (width, height in pixels) hold all of a box.

    That is one turned to it, or, where the place lies in it or too near for that, six that look in
    all directions.
    """
    corners = box.corners
    middle = (_unit(corners - np.array(position))).mean(axis=0) + np.array(position)
    aimed = _aimed(position, middle)
    local = aimed.seen(corners)
    if (local[:, 2] > 1e-3).all():
        across, upwards = np.abs(local[:, :2] / local[:, 2:]).max(axis=0) * 1.001 + 1e-6
        if max(across, upwards) <= STEEPEST_TANGENT:
            height = int(np.clip(ALONE_PIXELS * math.sqrt(upwards / across), 12, 8 * ALONE_PIXELS))
            width = max(1, math.ceil(height * across / upwards))
            fov = math.degrees(2 * math.atan(upwards))
            return [(replace(aimed, vertical_fov=fov), width, height)]
    ways = [(0.0, 0.0), (90.0, 0.0), (180.0, 0.0), (-90.0, 0.0), (0.0, 90.0), (0.0, -90.0)]
    return [(Camera(position, yaw, pitch, 90.0), ALONE_PIXELS, ALONE_PIXELS) for yaw, pitch in ways]


@lru_cache(maxsize=16)
def pixel_angles(width: int, height: int, vertical_fov: float) -> FloatArray:
    """Return the solid angle of every pixel, (H * W,) steradians, row by row."""
    u, v = np.arange(width)[None], np.arange(height)[:, None]
    return _angles(u, v, width, height, vertical_fov).ravel()


def _angles(
    u: NDArray[np.intp], v: NDArray[np.intp], width: int, height: int, vertical_fov: float
) -> FloatArray:
    """Return the solid angle of pixels in columns u and rows v, steradians."""
    focal = height / 2 / math.tan(math.radians(vertical_fov) / 2)
    right, below = (u + 0.5 - width / 2) / focal, (v + 0.5 - height / 2) / focal
    squares = 1 + right**2 + below**2
    angles: FloatArray = 1 / (squares * np.sqrt(squares) * focal**2)
    return angles


def _aimed(position: Vector, point: FloatArray) -> Camera:
    """Return a camera that looks at a point, however steeply."""
    x, y, z = (float(end - start) for end, start in zip(point, position, strict=True))
    level = math.hypot(x, y)
    return Camera(position, math.degrees(math.atan2(y, x)), math.degrees(math.atan2(z, level)))


def _unit(vectors: FloatArray) -> FloatArray:
    unit: FloatArray = vectors / np.maximum(np.linalg.norm(vectors, axis=1), 1e-9)[:, None]
    return unit
