"""The map: the room from above without its ceiling, with a metric grid and the camera's trail."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from render_agent.render.map_view.camera_path import MapPose, draw_trail
from render_agent.render.map_view.cut_faces import (
    FACE_COLOUR,
    cut_faces,
    level_face_orientation,
    surface_above_cut,
    wall_reach,
)
from render_agent.render.map_view.floor_cut import WALL_COLOUR, Storeys, section_lines
from render_agent.render.map_view.overlay import (
    SMOOTH,
    PlotArea,
    Ticks,
    axes,
    draw_grid,
    key,
    scale_bar,
)
from render_agent.render.renderer import Renderer
from render_agent.scans.camera import Camera, MapCamera
from render_agent.scans.scene import Scene

MARGIN_SHARE = 0.02  # free share of the plot on each side of the room

# Spacing of grid lines in metres: the first that separates them by TICK_SPACE_PIXELS. Small steps are used only if less
# than two metres are shown.
STEPS_METRES = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
SMALL_STEPS_METRES = (0.1, 0.2, 0.5)
TICK_SPACE_PIXELS = 26.0  # minimum distance between grid lines


@dataclass(frozen=True, eq=False)
class FloorPlan:
    """The fixed part of a map: the image, (H, W, 3) uint8, with grid and axes, and its camera."""

    image: NDArray[np.uint8]
    camera: MapCamera


class TopView:
    """Draws maps of one size. The fixed part is drawn only once per scene and storey."""

    def __init__(self, renderer: Renderer, size: tuple[int, int]) -> None:
        self.renderer = renderer
        self.size = size
        self.plot = PlotArea.inside(*size)
        self._planning = Lock()
        self._storeys = Storeys()
        self._plans: WeakKeyDictionary[Scene, dict[MapCamera, FloorPlan]] = WeakKeyDictionary()

    def draw(
        self,
        scene: Scene,
        camera: Camera | None,
        trail: Sequence[Camera],  # camera poses, oldest first, numbered from 1
    ) -> tuple[NDArray[np.uint8], MapCamera]:
        """Return the map, (H, W, 3) uint8, and its camera."""
        plan = self.plan(scene, camera)
        image = Image.fromarray(plan.image.copy())
        poses = [*trail]
        if camera is not None and (not poses or poses[-1] != camera):
            poses.append(camera)
        draw_trail(image, self.plot, [self._stop(n, p, plan) for n, p in enumerate(poses, 1)])
        return np.array(image), plan.camera

    def camera_of(self, scene: Scene, camera: Camera | None) -> MapCamera:
        """Return the map camera for the storey that contains `camera`; the lowest if None."""
        return self._storey(scene, camera)[0]

    def plan(self, scene: Scene, camera: Camera | None) -> FloorPlan:
        """Return the map of the storey that contains `camera` (the lowest if None), without a trail."""
        with self._planning:
            map_camera, ceiling = self._storey(scene, camera)
            plans = self._plans.setdefault(scene, {})
            if map_camera not in plans:
                plans[map_camera] = self._draw_plan(scene, map_camera, ceiling)
            return plans[map_camera]

    def _storey(self, scene: Scene, camera: Camera | None) -> tuple[MapCamera, float]:
        cut, ceiling = self._storeys.cut(scene, None if camera is None else camera.position[2])
        return frame_room(scene.bounds, cut, self.plot, self.size), ceiling

    def _draw_plan(self, scene: Scene, camera: MapCamera, ceiling: float) -> FloorPlan:
        from render_agent.render.map_view.distances import downscale

        plot = self.plot
        fine_camera = MapCamera(camera.centre, camera.height, camera.metres_per_pixel / SMOOTH)
        large = self.size[0] * SMOOTH, self.size[1] * SMOOTH
        frame = self.renderer.draw(scene, fine_camera, *large)
        lines = section_lines(scene, fine_camera, large)
        faces = np.zeros(self.size[::-1], bool)
        if lines.any():
            line_mask, surface_mask = _any_of_block(lines), _any_of_block(np.isfinite(frame.depth))
            higher = surface_above_cut(self.renderer, scene, camera, ceiling, self.size)
            reach = wall_reach(scene, camera.height)
            nearest_faces = (
                np.full(large[::-1], -1, np.int32) if frame.primitive is None else frame.primitive
            )
            facing = level_face_orientation(
                scene, camera, ceiling, nearest_faces[::SMOOTH, ::SMOOTH]
            )
            faces = cut_faces(
                line_mask, surface_mask, higher, facing, camera.metres_per_pixel, reach
            )
        subpixels = (0,) * SMOOTH
        image_array = downscale(frame.colours, lines, faces, WALL_COLOUR, FACE_COLOUR, subpixels)
        x_ticks, y_ticks, step = _ticks(camera, plot, self.size)
        draw_grid(image_array, plot, x_ticks, y_ticks)
        image = Image.fromarray(image_array)
        axes(image, plot, x_ticks, y_ticks)
        end = scale_bar(image, plot, step, step / camera.metres_per_pixel)
        labels = [f"cut face at z = {camera.height:.2f} m", f"cut z = {camera.height:.2f} m", "cut"]
        key(image, plot, labels, end, FACE_COLOUR, WALL_COLOUR)
        return FloorPlan(np.array(image), camera)

    def _stop(self, number: int, pose: Camera, plan: FloorPlan) -> MapPose:
        pixels, _ = plan.camera.project(np.array([pose.position]), *self.size)
        pixel = float(pixels[0, 0]), float(pixels[0, 1])
        return MapPose(number, pixel, pose.yaw, pose.horizontal_fov(*self.size))


def _any_of_block(pixels: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Downscale a mask by SMOOTH; a pixel, (H, W), is marked if any of its subpixels is."""
    rows = np.logical_or.reduce([pixels[row::SMOOTH] for row in range(SMOOTH)])
    return np.asarray(np.logical_or.reduce([rows[:, column::SMOOTH] for column in range(SMOOTH)]))


def frame_room(
    bounds: NDArray[np.float64],  # (2, 3) metres, world frame
    cut: float,  # height of the cut, metres, world frame
    plot: PlotArea,
    size: tuple[int, int],  # width and height of the image in pixels
) -> MapCamera:
    """Return the map camera that fits a room into `plot`."""
    width, height = size
    inner = np.array(plot.size) * (1 - 2 * MARGIN_SHARE)
    extent = np.maximum(bounds[1, :2] - bounds[0, :2], 0.1)
    scale = float((extent / inner).max())
    offset_x = ((plot.left + plot.right) / 2 - width / 2) * scale
    offset_y = ((plot.top + plot.bottom) / 2 - height / 2) * scale
    x, y = (bounds[0, :2] + bounds[1, :2]) / 2
    return MapCamera((float(x - offset_x), float(y + offset_y)), cut, scale)


def _ticks(camera: MapCamera, plot: PlotArea, size: tuple[int, int]) -> tuple[Ticks, Ticks, float]:
    """Return the grid lines along x and along y, and their spacing in metres."""
    width, height = size
    scale = camera.metres_per_pixel
    steps = SMALL_STEPS_METRES + STEPS_METRES if max(plot.size) * scale < 2 else STEPS_METRES
    space = TICK_SPACE_PIXELS * max(width / 640, 1)
    step = next((step for step in steps if step / scale >= space), steps[-1])
    x, y = (
        centre + np.array(ends) * scale
        for centre, ends in (
            (camera.centre[0], (plot.left - width / 2, plot.right - width / 2)),
            (camera.centre[1], (height / 2 - plot.bottom, height / 2 - plot.top)),
        )
    )
    x_ticks, y_ticks = (
        np.arange(math.ceil(low / step), math.ceil(high / step)) * step for low, high in (x, y)
    )
    columns = (x_ticks - camera.centre[0]) / scale + width / 2
    rows = height / 2 - (y_ticks - camera.centre[1]) / scale
    return _axis(x_ticks, columns), _axis(y_ticks, rows), step


def _axis(metres: NDArray[np.float64], pixels: NDArray[np.float64]) -> Ticks:
    return Ticks([float(f"{value:.6g}") for value in metres], pixels.tolist())
