"""Where the camera begins: in free space near the middle, facing the view with the most to see."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from render_agent.dialogue.prompt import start_note
from render_agent.dialogue.question import StartPose
from render_agent.dialogue.wording import general
from render_agent.errors import UsageError
from render_agent.render.projection import points_under
from render_agent.render.renderer import Renderer
from render_agent.scans.camera import Camera, Vector, wrapped
from render_agent.scans.formats.axis_alignment import read_alignment
from render_agent.scans.scene import Scene

if TYPE_CHECKING:
    from render_agent.scans.free_space.free_space import FreeSpace

Start = str | tuple[Vector, float]
"""`best`, `middle`, or a position in metres, world frame, with a yaw in degrees."""

CANDIDATE_YAWS = (0.0, 90.0, 180.0, 270.0)
"""The yaws that `best` compares; of equals the first is taken."""

PREVIEW_PIXELS = (160, 120)
"""Width and height in pixels of the views that are compared."""

FAR_METRES = 8.0
"""What is further away than this, in metres along the optical axis, is not counted as seen."""

PATCH_METRES = 0.1
"""Metres: seen surface is counted in cubes of this size, so that near walls do not outweigh far rooms."""

EYE_HEIGHT_METRES = 1.6
"""Metres above the floor."""


def parse_start(text: str) -> Start:
    """Return what `--start` asks for. UsageError where it is neither a word nor a pose."""
    if text in ("best", "middle"):
        return text
    with suppress(ValueError):
        x, y, z, yaw = (float(number) for number in text.split(","))
        if all(map(math.isfinite, (x, y, z, yaw))):
            return (x, y, z), yaw
    raise UsageError(
        f'the start "{text}" is neither best nor middle nor a pose: write x,y,z,yaw in metres'
        " and degrees, as in 1.5,-0.2,1.6,90"
    )


def refuse_outside(scene: Scene, where: str) -> None:
    """Raise UsageError where `--start` names a place outside a scene: the camera would begin elsewhere."""
    parsed = parse_start(where)
    if isinstance(parsed, str):
        return
    low, high = scene.bounds
    if not all(a <= at <= b for a, at, b in zip(low, parsed[0], high, strict=True)):
        room = ", ".join(f"{a:.1f} to {b:.1f}" for a, b in zip(low, high, strict=True))
        raise UsageError(
            f"--start {where} lies outside the scan, whose x, y and z go from {room} metres: choose a place within"
        )


def situated(scene: Scene, pose: StartPose) -> tuple[Vector, float]:
    """Return where a question's own pose is in its scene: metres, world frame, and the yaw in degrees.

    Of a scene that is mirrored it is where it would be in the scene as it was. A centred pose (SQA3D) counts from
    the middle of the bounds of the scan before ScanNet's alignment; it is turned as the scan was aligned, and
    stands at the height of the eyes.
    """
    origin = np.array(scene.origin)
    if not pose.centred:
        x, y, z = (float(value) for value in np.array(pose.position) - origin)
        return (x, y, z), pose.yaw
    points = scene.points.astype(np.float64)
    if scene.mirrored_at is not None:
        points = points * (-1, 1, 1) + (2 * scene.mirrored_at, 0, 0)
    read = None if scene.source is None else read_alignment(Path(scene.source))
    aligned = np.eye(4) if read is None else read
    turn, shift = aligned[:3, :3], aligned[:3, 3]
    raw = (points + origin - shift) @ turn  # the inverse of a turn is its transpose
    position = (raw.min(axis=0) + raw.max(axis=0)) / 2 + pose.position
    x, y, _ = (float(value) for value in turn @ position + shift - origin)
    yaw = math.degrees(math.atan2(turn[1, 0], turn[0, 0]))
    return (x, y, scene.floor + EYE_HEIGHT_METRES), wrapped(pose.yaw + yaw)


def start_camera(
    scene: Scene, renderer: Renderer, space: FreeSpace, where: Start, vertical_fov: float
) -> Camera:
    """Return the first camera of every question about `scene`.

    where: as `parse_start` gives or reads it; a pose that is not free is moved to the nearest that
    is. vertical_fov: degrees. In a mirrored scene it is the mirror image of the camera that the scene
    as it was would have. UsageError for another text, RenderError where the views that are to be
    compared cannot be drawn.
    """
    parsed = parse_start(where) if isinstance(where, str) else where
    if not isinstance(parsed, str):
        position, yaw = parsed
        pose = Camera(position, wrapped(yaw), 0.0, vertical_fov)
        pose = pose.mirrored(scene.mirrored_at)
        x, y, z = (float(value) for value in space.nearest_free(pose.position))
        return pose.at((x, y, z))
    x, y, z = (float(value) for value in space.start_position(EYE_HEIGHT_METRES))
    first = Camera((x, y, z), 0.0, 0.0, vertical_fov)
    views = [replace(first, yaw=_yaw(yaw, scene)) for yaw in CANDIDATE_YAWS]
    if parsed == "middle":
        return views[0]
    return max(views, key=lambda view: seen_patches(scene, renderer, view))


def seen_patches(scene: Scene, renderer: Renderer, camera: Camera) -> int:
    """Return how many cubes of PATCH_METRES hold a surface that the camera sees within FAR_METRES."""
    width, height = PREVIEW_PIXELS
    depth = renderer.draw(scene, camera, width, height).depth
    # Rounding, not cutting off, keeps walls and floors at whole decimetres clear of the cubes' sides.
    points = surface(depth, camera)
    if scene.mirrored_at is not None:  # the cubes are those of the scene as it was
        points = points * (-1.0, 1.0, 1.0) + (2 * scene.mirrored_at, 0.0, 0.0)
    patches = np.rint(points / PATCH_METRES).astype(np.int64)
    if not len(patches):
        return 0
    patches -= patches.min(axis=0)
    # One number a cube: numbers are sorted many times faster than rows are.
    return len(np.unique(np.ravel_multi_index(patches.T, patches.max(axis=0) + 1)))


def surface(depth: NDArray[np.float32], camera: Camera) -> NDArray[np.float64]:
    """Return the points, (n, 3) metres, world frame, of the pixels of `depth` nearer than FAR_METRES.

    depth: (H, W), metres along the optical axis, inf where nothing is.
    """
    height, width = depth.shape
    rows, columns = np.nonzero(depth < FAR_METRES)
    near = depth[rows, columns].astype(np.float64)
    return points_under(camera, columns, rows, near, (width, height))


def _yaw(yaw: float, scene: Scene) -> float:
    """Return the yaw, degrees, that stands in a scene for `yaw` in it before it was mirrored."""
    return wrapped(yaw if scene.mirrored_at is None else 180.0 - yaw)


def moved_start(scene: Scene, where: Start, camera: Camera) -> tuple[str, ...]:
    """Return a sentence where the first camera is not at the place that was asked for; else nothing."""
    parsed = parse_start(where) if isinstance(where, str) else where
    if isinstance(parsed, str):
        return ()
    wanted = Camera(parsed[0]).mirrored(scene.mirrored_at).position
    return tuple(start_note(wanted, camera, general()))
