"""How much of an object a camera sees: pixels, visible share and distance, with occlusion.

Objects are boxes; `box_surfaces` assigns the scene's surface to them. Glass occludes what is behind it, as in any
rendering of a scan.
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

from render_agent.dialogue.chat import View
from render_agent.render.around import around_cameras, camera_ahead, cell_size
from render_agent.render.projection import pixel_points, projection
from render_agent.render.renderer import Frame, Renderer, without_colours
from render_agent.scans.boxes import OrientedBox
from render_agent.scans.camera import AnyCamera, Camera, FloatArray, MapCamera, Vector
from render_agent.scans.scene import Scene
from render_agent.visibility.box_surfaces import MARGIN_METRES, BoxSurfaces
from render_agent.visibility.coverage import DIRECTIONS

MAX_WIDTH_PIXELS = 320  # maximum width, by default, at which pixels are counted
ALONE_PIXELS = 160  # approximate size at which an object is drawn alone
# Objects that extend farther from the image centre (tangent) are drawn in six images.
MAX_TANGENT = 1.5
FAR_ABOVE_METRES = 1e4  # viewpoint above a map's cut, so far that everything is seen from above

# An object is clearly visible if at least this share of it, and this share of the image's pixels, show it. The values
# were chosen by inspecting the bundled rooms. With less than a quarter visible, a stove is a line above a sofa, and a
# chair a corner of its seat. From 0.3 on, people recognise objects and their positions. An area of 0.002 of 640x480 is
# 25 x 25 pixels, slightly less than one token of a vision model; at half of that, a wall clock is still recognisable
# but a keyboard is not.
MIN_CLEAR_SHARE, MIN_CLEAR_AREA = 0.3, 0.002


class ObjectSighting(Struct, frozen=True, array_like=True):
    """Visibility of one box in one view."""

    view: int  # number of the view in its question
    box: int
    area: float = 0.0
    share: float = 0.0
    """Visible share, 0 to 1: its solid angle in the view relative to its solid angle without occlusion and
    image edges.
    """
    distance: float = math.inf  # metres from the camera to the closest point of the box

    def is_clear(self, size: tuple[int, int]) -> bool:
        """Return True if the box is clearly visible in a view of `size` pixels.

        Share and area are rounded to three decimals and a tenth of a pixel.
        """
        return (
            round(self.share, 3) >= MIN_CLEAR_SHARE
            and round(self.area, 1) >= MIN_CLEAR_AREA * size[0] * size[1]
        )


class ObjectVisibility:
    """Measures the visibility of objects in views of a scene. Use it in the thread that owns the renderer."""

    def __init__(
        self,
        renderer: Renderer,
        scene: Scene,
        # all known objects, in the scene's frame; surface in several boxes belongs to the smallest
        boxes: Sequence[OrientedBox],
        size: tuple[int, int],
        max_width: int = MAX_WIDTH_PIXELS,  # maximum width in pixels at which pixels are counted
    ) -> None:
        self.renderer = without_colours(renderer)
        self.scene = scene
        self.boxes = list(boxes)
        self.size = size
        shrink = min(1.0, max_width / size[0])
        self.counted = max(1, round(size[0] * shrink)), max(1, round(size[1] * shrink))
        self._surfaces = BoxSurfaces.of(scene, boxes)
        self._grown = [box.grown(MARGIN_METRES) for box in boxes]

    def look(
        self,
        camera: Camera,
        box_numbers: Sequence[int] | None = None,  # numbers of the boxes; None for all
    ) -> list[ObjectSighting]:
        areas, angles = self.count(self.frame(camera), camera)
        numbers = range(len(self.boxes)) if box_numbers is None else box_numbers
        return self.sightings(areas, angles, camera.position, numbers)

    def frame(self, camera: Camera) -> Frame:
        """Draw the frame in which pixels are counted. Raises RenderError if it cannot be drawn."""
        return self.renderer.draw(self.scene, camera, *self.counted)

    def count(self, frame: Frame, camera: Camera) -> tuple[FloatArray, FloatArray]:
        """Return how much of each box a frame from `frame` shows, (boxes,) pixels and steradians."""
        angles = pixel_angles(*self.counted, camera.vertical_fov)
        return self._sums(frame, camera, camera.position, angles)

    def map_areas(self, camera: MapCamera) -> FloatArray:
        """Return the number of pixels that show each box on a map without overlays, (boxes,)."""
        scale = camera.metres_per_pixel * self.size[0] / self.counted[0]
        coarse = replace(camera, metres_per_pixel=scale)
        frame = self.renderer.draw(self.scene, coarse, *self.counted)
        return self._sums(frame, coarse, viewpoint(camera), np.empty(0))[0]

    def sightings(
        self,
        areas: FloatArray,  # pixels of each box in views from one position, (boxes,)
        angles: FloatArray,  # solid angle of each box in these views, (boxes,) steradians
        position: Vector,  # metres, world frame
        box_numbers: Iterable[int],
    ) -> list[ObjectSighting]:
        """Return the visibility of the boxes `box_numbers`, recorded as view 0."""
        counts, distances = self._surfaces.seen_from(position), self._surfaces.distances(position)
        sightings = []
        for number in box_numbers:
            area, share = float(areas[number]), 0.0
            if area:
                total_angle = self._unoccluded_angle(counts[:, number], number, position)
                share = min(1.0, float(angles[number]) / total_angle) if total_angle else 0.0
            sightings.append(ObjectSighting(0, number, area, share, float(distances[number])))
        return sightings

    def cameras(self, view: View) -> list[tuple[ObjectVisibility, Camera]]:
        """Return the cameras whose images form a view, each with an `ObjectVisibility` for its image size.

        There are four for `around`, each in a quarter of the image; other views have one.
        """
        assert isinstance(view.camera, Camera), "maps have no perspective camera"
        if view.kind != "around":
            return [(self, view.camera)]
        quarter = self.with_size(cell_size(self.size))
        return [
            (quarter, camera) for camera in around_cameras(camera_ahead(view.camera, self.size))
        ]

    def with_size(self, size: tuple[int, int]) -> ObjectVisibility:
        """Return an `ObjectVisibility` for images of another size, with the same downscaling."""
        resized = copy(self)
        shrink = self.counted[0] / self.size[0]
        resized.size = size
        resized.counted = max(1, round(size[0] * shrink)), max(1, round(size[1] * shrink))
        return resized

    def _sums(
        self, frame: Frame, camera: Camera | MapCamera, position: Vector, angle: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        from render_agent.visibility.counting import tally_pixels

        surfaces, pieces = self._surfaces, frame.primitive
        if pieces is None:
            surfaces, pieces = self._assign_pixels(frame, camera)
        weights = surfaces.seen_from(position).astype(np.float64)
        scale = self.size[0] * self.size[1] / (self.counted[0] * self.counted[1])
        areas, angles = tally_pixels(surfaces.groups, pieces.ravel(), angle, len(weights))
        return (areas @ weights) * scale, np.asarray(angles @ weights)

    def _assign_pixels(
        self, frame: Frame, camera: Camera | MapCamera
    ) -> tuple[BoxSurfaces, NDArray[np.int32]]:
        """Assign the surface points at the pixels to boxes. Return the assignment and each pixel's point number, -1 for
        none.
        """
        points = pixel_points(frame.depth, camera)
        surfaces = BoxSurfaces.assign(points[:, None], None, self.boxes)
        pieces = np.full(frame.depth.shape, -1, np.int32)
        pieces[np.isfinite(frame.depth)] = np.arange(len(points))
        return surfaces, pieces

    def _unoccluded_angle(
        self,
        groups: NDArray[np.bool_],  # (groups,) bool, the groups that count as the object from there
        number: int,
        position: Vector,  # metres, world frame
    ) -> float:
        """Return the solid angle of an object seen from a position without occlusion."""
        pieces, scene = self._surfaces.pieces(groups), self.scene
        views = cameras_around(self._grown[number], position)
        if scene.faces is not None:
            return sum(self._faces_angle(pieces, *view) for view in views)
        object_scene = replace(
            scene,
            points=scene.points[pieces],
            colours=scene.colours[pieces],
            bounds=self._grown[number].bounds,
            gaussians=scene.gaussians and scene.gaussians.where(pieces),
        )
        return sum(self._cloud_angle(object_scene, *view) for view in views)

    def _faces_angle(
        self, faces: NDArray[np.intp], camera: Camera, width: int, height: int
    ) -> float:
        from render_agent.visibility.counting import angle_of_faces

        view, focal = projection(camera, width, height), camera.focal(height)
        mesh = self.scene.points, self.scene.faces, faces
        return float(angle_of_faces(*mesh, view.matrix, view.near, width, height, focal))

    def _cloud_angle(self, cloud: Scene, camera: Camera, width: int, height: int) -> float:
        v, u = np.nonzero(np.isfinite(self.renderer.draw(cloud, camera, width, height).depth))
        return float(_angles(u, v, width, height, camera.vertical_fov).sum())


def viewpoint(camera: AnyCamera) -> Vector:
    """Return the position of a camera, (3,) metres, world frame; for a map, a point far above the room."""
    if isinstance(camera, Camera):
        return camera.position
    return (*camera.centre, camera.height + FAR_ABOVE_METRES)


def cameras_around(box: OrientedBox, position: Vector) -> list[tuple[Camera, int, int]]:
    """Return cameras at a position whose images (width, height in pixels) contain a whole box.

    Usually this is one camera aimed at the box. If the position is inside or too close, six cameras cover all
    directions.
    """
    corners = box.corners
    middle = (_unit(corners - np.array(position))).mean(axis=0) + np.array(position)
    camera = _camera_towards(position, middle)
    local = camera.to_camera_frame(corners)
    if (local[:, 2] > 1e-3).all():
        half_width, half_height = np.abs(local[:, :2] / local[:, 2:]).max(axis=0) * 1.001 + 1e-6
        if max(half_width, half_height) <= MAX_TANGENT:
            height = int(
                np.clip(ALONE_PIXELS * math.sqrt(half_height / half_width), 12, 8 * ALONE_PIXELS)
            )
            width = max(1, math.ceil(height * half_width / half_height))
            fov = math.degrees(2 * math.atan(half_height))
            return [(replace(camera, vertical_fov=fov), width, height)]
    size = ALONE_PIXELS, ALONE_PIXELS
    return [(Camera(position, yaw, pitch, 90.0), *size) for yaw, pitch in DIRECTIONS]


@lru_cache(maxsize=16)
def pixel_angles(width: int, height: int, vertical_fov: float) -> FloatArray:
    """Return the solid angle of every pixel, (H * W,) steradians, row by row."""
    u, v = np.arange(width)[None], np.arange(height)[:, None]
    return _angles(u, v, width, height, vertical_fov).ravel()


def _angles(
    u: NDArray[np.intp], v: NDArray[np.intp], width: int, height: int, vertical_fov: float
) -> FloatArray:
    """Return the solid angle of the pixels in columns u and rows v, in steradians."""
    focal = height / 2 / math.tan(math.radians(vertical_fov) / 2)
    right, below = (u + 0.5 - width / 2) / focal, (v + 0.5 - height / 2) / focal
    squares = 1 + right**2 + below**2
    angles: FloatArray = 1 / (squares * np.sqrt(squares) * focal**2)
    return angles


def _camera_towards(position: Vector, point: FloatArray) -> Camera:
    """Return a camera that looks at a point, with unlimited pitch."""
    x, y, z = (float(end - start) for end, start in zip(point, position, strict=True))
    level = math.hypot(x, y)
    return Camera(position, math.degrees(math.atan2(y, x)), math.degrees(math.atan2(z, level)))


def _unit(vectors: FloatArray) -> FloatArray:
    unit: FloatArray = vectors / np.maximum(np.linalg.norm(vectors, axis=1), 1e-9)[:, None]
    return unit
