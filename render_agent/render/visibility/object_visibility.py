"""How much of an object a camera sees: pixels, share and distance, depth-tested.

Objects are boxes; `box_surfaces` says what of the scene's surface belongs to one. Glass hides what is
behind it, as it does in every picture of a scan.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import replace
from functools import lru_cache

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from render_agent.dialogue.view import View
from render_agent.render.around import camera_ahead, cameras_of, cell_size
from render_agent.render.projection import points_under, projection
from render_agent.render.renderer import Frame, Renderer
from render_agent.render.visibility.box_surfaces import MARGIN_METRES, BoxSurfaces
from render_agent.scans.boxes import OrientedBox
from render_agent.scans.camera import Camera, FloatArray, MapCamera, Vector
from render_agent.scans.scene import Scene

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


class Sighting(Struct, frozen=True, array_like=True):
    """How one box is seen in one view.

    view: the number of the view within the question. box: its number. area: pixels that show it. share: of what would
    be seen of it from there with nothing in the way and a picture without edges, by solid angle, 0 to 1. distance:
    metres from the camera to its closest point.
    """

    view: int
    box: int
    area: float = 0.0
    share: float = 0.0
    distance: float = math.inf

    def well(self, size: tuple[int, int]) -> bool:
        """Whether the box is seen well enough in a view of `size` pixels to be recognised and judged.

        Share and area count to three decimals and to a tenth of a pixel.
        """
        return (
            round(self.share, 3) >= LEAST_SHARE
            and round(self.area, 1) >= LEAST_AREA * size[0] * size[1]
        )


class Sight:
    """Looks for objects of a scene in its views; owned by the thread that owns the renderer.

    boxes: of all objects that are known, in the scene's frame: what lies in two of them goes to the
    smaller. size: width and height of the pictures that areas are given for. widest: pixels across
    in which it is counted at the most.
    """

    def __init__(
        self,
        renderer: Renderer,
        scene: Scene,
        boxes: Sequence[OrientedBox],
        size: tuple[int, int],
        widest: int = WIDEST_PIXELS,
    ) -> None:
        self.renderer = renderer
        self.scene = scene
        self.boxes = list(boxes)
        self.size = size
        shrunk = min(1.0, widest / size[0])
        self.counted = max(1, round(size[0] * shrunk)), max(1, round(size[1] * shrunk))
        self._surfaces = BoxSurfaces.of(scene, boxes)
        self._grown = [box.grown(MARGIN_METRES) for box in boxes]

    def look(self, camera: Camera, which: Sequence[int] | None = None) -> list[Sighting]:
        """Return how each of the boxes is seen; which: their numbers, all unless given.

        RenderError where the scene cannot be drawn.
        """
        areas, angles = self.count(self.frame(camera), camera)
        numbers = range(len(self.boxes)) if which is None else which
        return self.sightings(areas, angles, camera.position, numbers)

    def frame(self, camera: Camera) -> Frame:
        """Return the view in which it is counted. RenderError where it cannot be drawn."""
        return self.renderer.draw(self.scene, camera, *self.counted)

    def count(self, frame: Frame, camera: Camera) -> tuple[FloatArray, FloatArray]:
        """Return how much of each box shows in a view that `frame` gave: (boxes,) pixels and steradians."""
        angles = pixel_angles(*self.counted, camera.vertical_fov)
        return self._sums(frame, camera, camera.position, angles)

    def map_areas(self, camera: MapCamera) -> FloatArray:
        """Return how many pixels show each box, (boxes,), on a map without its grid and its trail.

        RenderError where it cannot be drawn.
        """
        scale = camera.metres_per_pixel * self.size[0] / self.counted[0]
        coarse = replace(camera, metres_per_pixel=scale)
        frame = self.renderer.draw(self.scene, coarse, *self.counted)
        above = *camera.centre, camera.height + FAR_ABOVE_METRES
        return self._sums(frame, coarse, above, np.empty(0))[0]

    def sightings(
        self, areas: FloatArray, angles: FloatArray, position: Vector, which: Iterable[int]
    ) -> list[Sighting]:
        """Return how the boxes `which` are seen, of which so much shows in views taken at one place, as of view 0.

        RenderError where an object cannot be drawn alone.
        """
        counts, away = self._surfaces.seen_from(position), self._surfaces.distances(position)
        found = []
        for number in which:
            area, share = float(areas[number]), 0.0
            if area:
                whole = self._whole_angle(counts[:, number], number, position)
                share = min(1.0, float(angles[number]) / whole) if whole else 0.0
            found.append(Sighting(0, number, area, share, float(away[number])))
        return found

    def cameras(self, view: View) -> list[tuple[Sight, Camera]]:
        """Return the cameras whose pictures a view shows together, each with what counts in it.

        Those are four for `around`, each in a quarter of the picture, and the view's own for others.
        """
        assert isinstance(view.camera, Camera), "it is no map"
        if view.kind != "around":
            return [(self, view.camera)]
        quarter = self.sized(cell_size(self.size))
        return [(quarter, each) for each in cameras_of(camera_ahead(view.camera, self.size))]

    def sized(self, size: tuple[int, int]) -> Sight:
        """Return a Sight for pictures of another size, counted as coarsely."""
        other = copy(self)
        shrunk = self.counted[0] / self.size[0]
        other.size = size
        other.counted = max(1, round(size[0] * shrunk)), max(1, round(size[1] * shrunk))
        return other

    def _sums(
        self, frame: Frame, camera: Camera | MapCamera, position: Vector, angle: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        from render_agent.render.visibility.counting import tally

        surfaces, pieces = self._surfaces, frame.primitive
        if pieces is None:
            surfaces, pieces = self._by_depth(frame, camera)
        weights = surfaces.seen_from(position).astype(np.float64)
        scale = self.size[0] * self.size[1] / (self.counted[0] * self.counted[1])
        areas, angles = tally(surfaces.groups, pieces.ravel(), angle, len(weights))
        return (areas @ weights) * scale, np.asarray(angles @ weights)

    def _by_depth(
        self, frame: Frame, camera: Camera | MapCamera
    ) -> tuple[BoxSurfaces, NDArray[np.int32]]:
        """Return what the surface points under the pixels belong to, and the number of each pixel's, -1 without one."""
        v, u = np.nonzero(np.isfinite(frame.depth))
        points = points_under(camera, u, v, frame.depth[v, u].astype(np.float64), self.counted)
        surfaces = BoxSurfaces.holding(points[:, None], None, self.boxes)
        pieces = np.full(frame.depth.shape, -1, np.int32)
        pieces[v, u] = np.arange(len(points))
        return surfaces, pieces

    def _whole_angle(self, groups: NDArray[np.bool_], number: int, position: Vector) -> float:
        """Return the solid angle that an object takes from a place with nothing else there.

        groups: (groups,) which of them count as the object from there.
        """
        pieces, scene = self._surfaces.pieces(groups), self.scene
        views = cameras_around(self._grown[number], position)
        if scene.faces is not None:
            return sum(self._faces_angle(pieces, *view) for view in views)
        alone = replace(
            scene,
            points=scene.points[pieces],
            colours=scene.colours[pieces],
            bounds=self._grown[number].bounds,
            gaussians=scene.gaussians and scene.gaussians.where(pieces),
        )
        return sum(self._cloud_angle(alone, *view) for view in views)

    def _faces_angle(
        self, faces: NDArray[np.intp], camera: Camera, width: int, height: int
    ) -> float:
        from render_agent.render.visibility.counting import angle_of_faces

        view, focal = projection(camera, width, height), camera.focal(height)
        mesh = self.scene.points, self.scene.faces, faces
        return float(angle_of_faces(*mesh, view.matrix, view.near, width, height, focal))

    def _cloud_angle(self, cloud: Scene, camera: Camera, width: int, height: int) -> float:
        v, u = np.nonzero(np.isfinite(self.renderer.draw(cloud, camera, width, height).depth))
        return float(_angles(u, v, width, height, camera.vertical_fov).sum())


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
