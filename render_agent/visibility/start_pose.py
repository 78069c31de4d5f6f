"""The start pose: the standing place and heading that show the most surface, or a pose chosen by the user."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from render_agent.dialogue.prompt import start_note
from render_agent.dialogue.question import StartPose
from render_agent.dialogue.wording import general
from render_agent.errors import UsageError
from render_agent.render.projection import pixel_points
from render_agent.render.renderer import Renderer, without_colours
from render_agent.scans.camera import Camera, Vector, wrap_degrees
from render_agent.scans.formats.axis_alignment import read_alignment
from render_agent.scans.scene import Scene
from render_agent.visibility.coverage import sample_surface
from render_agent.visibility.panorama import visible_points

if TYPE_CHECKING:
    from render_agent.scans.free_space.free_space import FreeSpace

Start = str | tuple[Vector, float]
"""One of RULES, or a position in metres, world frame, with a yaw in degrees."""

RULES = ("best", "most-surface", "four-headings", "middle")  # `best` stands for most-surface

# `best` compares HEADINGS headings at each of PLACES places. Ties go to the first.
HEADINGS = 24
PLACES = 5
# Points that represent the surface; the error of the visible share is about 2 % of its value.
SAMPLES = 20_000

# `four-headings`, the rule of `best` in earlier versions, counts cubes at one place.
CANDIDATE_YAWS = (0.0, 90.0, 180.0, 270.0)  # degrees; ties go to the first
PREVIEW_PIXELS = (160, 120)  # width and height of the views that are compared
FAR_METRES = 8.0  # surface farther than this along the optical axis does not count as seen
# Visible surface is counted in cubes of this size, so that near walls do not dominate.
PATCH_METRES = 0.1
EYE_HEIGHT_METRES = 1.6  # above the floor


def parse_start(text: str) -> Start:
    """Parse the value of `--start`. Raises UsageError if it is neither a known rule nor a pose."""
    if text in RULES:
        return text
    with suppress(ValueError):
        x, y, z, yaw = (float(number) for number in text.split(","))
        if all(map(math.isfinite, (x, y, z, yaw))):
            return (x, y, z), yaw
    raise UsageError(
        f'invalid start "{text}": write best, four-headings, middle, or a pose x,y,z,yaw in metres and degrees,'
        " such as 1.5,-0.2,1.6,90"
    )


def question_pose(scene: Scene, pose: StartPose) -> tuple[Vector, float]:
    """Return the pose specified by a question: position in metres, world frame, and yaw in degrees.

    In a mirrored scene this is the pose before mirroring. A centred pose (SQA3D) is relative to the middle of the
    scan's bounds before ScanNet's alignment. It is transformed by the alignment and placed at eye height.
    """
    origin = np.array(scene.origin)
    if not pose.centred:
        x, y, z = (float(value) for value in np.array(pose.position) - origin)
        return (x, y, z), pose.yaw
    points = scene.points.astype(np.float64)
    if scene.mirrored_at is not None:
        points = points * (-1, 1, 1) + (2 * scene.mirrored_at, 0, 0)
    alignment = None if scene.source is None else read_alignment(Path(scene.source))
    matrix = np.eye(4) if alignment is None else alignment
    turn, shift = matrix[:3, :3], matrix[:3, 3]
    raw = (points + origin - shift) @ turn  # the inverse of a rotation is its transpose
    position = (raw.min(axis=0) + raw.max(axis=0)) / 2 + pose.position
    x, y, _ = (float(value) for value in turn @ position + shift - origin)
    yaw = math.degrees(math.atan2(turn[1, 0], turn[0, 0]))
    return (x, y, scene.floor + EYE_HEIGHT_METRES), wrap_degrees(pose.yaw + yaw)


def start_camera(
    scene: Scene,
    renderer: Renderer,
    space: FreeSpace,
    start: Start,
    vertical_fov: float,
    aspect: float = 4 / 3,
) -> Camera:
    """Return the first camera of every question about a scene; a pose that is not free is moved to the nearest free
    place.

    In a mirrored scene it is the mirror image of the camera in the original scene.
    """
    if not isinstance(start, str):
        position, yaw = start
        pose = Camera(position, wrap_degrees(yaw), 0.0, vertical_fov)
        pose = pose.mirrored(scene.mirrored_at)
        return pose.at(space.nearest_free(pose.position))
    if start in ("best", "most-surface"):
        return _camera_with_most_surface(scene, renderer, space, vertical_fov, aspect)
    camera = Camera((0.0, 0.0, 0.0), 0.0, 0.0, vertical_fov)
    camera = camera.at(space.start_position(EYE_HEIGHT_METRES))
    views = [replace(camera, yaw=_yaw(yaw, scene)) for yaw in CANDIDATE_YAWS]
    if start == "middle":
        return views[0]
    return max(views, key=lambda view: count_visible_patches(scene, renderer, view))


def _camera_with_most_surface(
    scene: Scene, renderer: Renderer, space: FreeSpace, vertical_fov: float, aspect: float
) -> Camera:
    """Return the camera that sees the largest area of surface, out of HEADINGS headings at each of PLACES places."""
    original = scene if scene.mirrored_at is None else scene.mirrored()
    points = space.mirror(sample_surface(original, SAMPLES, space.unmirrored_samples))
    yaws = [_yaw(360.0 * number / HEADINGS, scene) for number in range(HEADINGS)]
    best_camera, best_area = Camera((0.0, 0.0, 0.0)), -1
    for position in space.start_places(PLACES, EYE_HEIGHT_METRES):
        cameras = [Camera((0.0, 0.0, 0.0), yaw, 0.0, vertical_fov).at(position) for yaw in yaws]
        counts = visible_points(scene, renderer, cameras, aspect, points).sum(axis=1)
        if counts.max() > best_area:
            best_camera, best_area = cameras[int(counts.argmax())], int(counts.max())
    return best_camera


def count_visible_patches(scene: Scene, renderer: Renderer, camera: Camera) -> int:
    """Return the number of cubes of PATCH_METRES with surface that the camera sees within FAR_METRES."""
    width, height = PREVIEW_PIXELS
    depth = without_colours(renderer).draw(scene, camera, width, height).depth
    # Rounding instead of truncation keeps walls and floors at whole decimetres away from cube faces.
    points = pixel_points(depth, camera, FAR_METRES)
    if scene.mirrored_at is not None:  # use the cubes of the original scene
        points = points * (-1.0, 1.0, 1.0) + (2 * scene.mirrored_at, 0.0, 0.0)
    patches = np.rint(points / PATCH_METRES).astype(np.int64)
    if not len(patches):
        return 0
    patches -= patches.min(axis=0)
    # One integer per cube, because integers are much faster to sort than rows.
    return len(np.unique(np.ravel_multi_index(patches.T, patches.max(axis=0) + 1)))


def _yaw(yaw: float, scene: Scene) -> float:
    """Return the yaw, in degrees, that corresponds to `yaw` in the scene before mirroring."""
    return wrap_degrees(yaw if scene.mirrored_at is None else 180.0 - yaw)


def moved_start_note(scene: Scene, start: Start, camera: Camera) -> tuple[str, ...]:
    """Return a sentence for the model if the first camera is not at the requested position; otherwise nothing."""
    if isinstance(start, str):
        return ()
    position = Camera(start[0]).mirrored(scene.mirrored_at).position
    return tuple(start_note(position, camera, general()))
