"""A scan in which targets are chosen: its free space, and tests of what a camera shows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from render_agent.render.renderer import Renderer
from render_agent.scans.camera import (
    Camera,
    FloatArray,
    Vector,
    vertical_from_horizontal,
    wrap_degrees,
)
from render_agent.scans.free_space.free_space import FreeSpace
from render_agent.scans.free_space.standing import farthest_point_sample
from render_agent.scans.scene import Scene
from render_agent.score.metrics import ViewSuccess
from render_agent.tasks.ground_truth import Facts
from render_agent.visibility.object_visibility import ObjectVisibility
from render_agent.visibility.start_pose import EYE_HEIGHT_METRES

SIZE = (96, 72)  # width and height in pixels of the images that are tested
VERTICAL_FOV = vertical_from_horizontal(75.0, *SIZE)  # degrees, that of a run with default options

MIN_SURFACE = 0.9  # share of the pixels that must show scanned surface
MIN_MEDIAN_METRES = 0.9  # views of nearer surface show too little of the room
# Share of pixels whose brightness differs from a neighbour's by at least MIN_STEP of 255.
MIN_EDGES, MIN_STEP = 0.08, 8.0

MIN_GAP_METRES = 0.2  # surface this far in front of a place hides it

COARSE = 4  # images are compared after averaging blocks of this many pixels
PLACES = 48  # places, and HEADINGS at each of them, whose views are compared with a target
HEADINGS = 24
# Smallest mean difference in brightness, of 255, to views outside the tolerance. Views 0.5 m or 15 degrees apart
# usually differ by 12 to 36; repeated furniture and bare walls by less.
MIN_DIFFERENCE = 12.0
# Poses farther from a target than this many times the limits of success must look different.
TOLERANCE = 1.5


class TargetRoom:
    """A scan in which targets are chosen. Not thread-safe."""

    def __init__(
        self,
        scene: Scene,
        space: FreeSpace,
        facts: Facts | None,  # boxes in the scene's frame; None if they are unknown
        renderer: Renderer,
    ) -> None:
        self.scene = scene
        self.space = space
        self.facts = facts
        self.renderer = renderer

    @cached_property
    def places(self) -> FloatArray:
        """Free places at eye height, (n, 3) metres."""
        return self.space.standing_places(EYE_HEIGHT_METRES)

    @cached_property
    def objects(self) -> ObjectVisibility:
        """Visibility of the boxes."""
        boxes = [
            box for group in (self.facts.boxes if self.facts else {}).values() for box in group
        ]
        return ObjectVisibility(self.renderer, self.scene, boxes, SIZE)

    def has_content(self, camera: Camera) -> bool:
        """Return True if a view shows enough surface, not too near, with enough edges."""
        frame = self.renderer.draw(self.scene, camera, *SIZE)
        if (
            np.isfinite(frame.depth).mean() < MIN_SURFACE
            or np.median(frame.depth) < MIN_MEDIAN_METRES
        ):
            return False
        grey = frame.colours.mean(axis=2)
        steps = np.abs(np.diff(grey, axis=0))[:, 1:], np.abs(np.diff(grey, axis=1))[1:]
        return bool((np.maximum(*steps) >= MIN_STEP).mean() >= MIN_EDGES)

    def is_hidden(self, place: Vector, start: Camera) -> bool:
        """Return True if surface hides a place from a camera, whichever way it looks."""
        depth = self.renderer.draw(self.scene, start.looking_at(place), *SIZE).depth
        in_front = depth[SIZE[1] // 2, SIZE[0] // 2]
        return bool(in_front < math.dist(place, start.position) - MIN_GAP_METRES)

    def is_distinct(self, camera: Camera) -> bool:
        """Return True if no view from elsewhere looks like that of a camera."""
        metres, degrees = (TOLERANCE * limit for limit in ViewSuccess.limits)
        poses, images = self._gallery(camera.pitch)
        offsets = np.linalg.norm(poses[:, :3] - np.array(camera.position), axis=1)
        turns = np.abs([wrap_degrees(yaw - camera.yaw) for yaw in poses[:, 3]])
        is_elsewhere = (offsets > metres) | (turns > degrees)
        differences = np.abs(images - self._coarse(camera)).mean(axis=(1, 2, 3))
        return bool(differences[is_elsewhere].min(initial=np.inf) >= MIN_DIFFERENCE)

    def _gallery(self, pitch: float) -> tuple[FloatArray, NDArray[np.float32]]:
        """Return the poses (n, 5) and coarse images of views all over the room, with one pitch."""
        if pitch not in self._galleries:
            cameras = [*self._cameras(pitch)]
            poses = np.array([(*c.position, c.yaw, c.pitch) for c in cameras])
            self._galleries[pitch] = poses, np.stack([*map(self._coarse, cameras)])
        return self._galleries[pitch]

    @cached_property
    def _galleries(self) -> dict[float, tuple[FloatArray, NDArray[np.float32]]]:
        return {}

    def _cameras(self, pitch: float) -> Iterator[Camera]:
        first = self.places[0]
        for place in (first, *farthest_point_sample(self.places, first, PLACES - 1)):
            camera = Camera((0.0, 0.0, 0.0), 0.0, pitch, VERTICAL_FOV).at(place)
            for number in range(HEADINGS):
                yield replace(camera, yaw=wrap_degrees(360.0 * number / HEADINGS))

    def _coarse(self, camera: Camera) -> NDArray[np.float32]:
        """Return the image of a camera, averaged over blocks of pixels."""
        width, height = SIZE[0] // COARSE, SIZE[1] // COARSE
        colours = self.renderer.draw(self.scene, camera, *SIZE).colours.astype(np.float32)
        blocks = colours.reshape(height, COARSE, width, COARSE, 3)
        return np.asarray(blocks.mean(axis=(1, 3)), np.float32)
