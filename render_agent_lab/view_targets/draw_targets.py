"""Draws targets and start poses by tier."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from render_agent.dialogue.moves import apply_action
from render_agent.dialogue.question import Pose, pose_error, pose_of
from render_agent.scans.camera import Camera, wrap_degrees
from render_agent.scans.free_space.shortest_path import ShortestPaths
from render_agent.score.metrics import StrictViewSuccess
from render_agent_lab.oracles.target_walker import step_towards
from render_agent_lab.view_targets.describe import describe_view
from render_agent_lab.view_targets.target_room import VERTICAL_FOV, TargetRoom

MAX_ATTEMPTS = 400  # pairs of poses tried per target
MAX_STEPS = 6  # moves along the shortest path; a run has nine turns by default
MIN_TURN = 45  # degrees; smaller turns are within the limits of success, or close to them
PITCHES = (0.0, -15.0)  # degrees, of targets
LEVELS = (0.0, -0.4)  # metres, heights of targets relative to the start
NEAR_METRES = (0.8, 3.0)  # straight distance between start and target
FAR_METRES = 1.5  # shortest distance if something is in between

IMAGE_TEXT = "Move the camera until it shows the target image."
TEXT = "Move the camera, at its present height, until it shows {view}. Distances are level ones, to the middle of objects."


@dataclass(frozen=True, slots=True)
class Draft:
    """A start and a target, before the tests."""

    start: Camera
    target: Camera
    text: str = IMAGE_TEXT


def _random_camera(room: TargetRoom, rng: np.random.Generator) -> Camera:
    place = room.places[rng.integers(len(room.places))]
    return Camera((0.0, 0.0, 0.0), float(rng.integers(-180, 180)), 0.0, VERTICAL_FOV).at(place)


def _turned(camera: Camera, rng: np.random.Generator) -> Camera:
    """Return a camera with another heading, and a pitch of PITCHES."""
    turn = float(rng.integers(MIN_TURN, 361 - MIN_TURN))
    return replace(camera, yaw=wrap_degrees(camera.yaw + turn), pitch=float(rng.choice(PITCHES)))


def _rotation(room: TargetRoom, rng: np.random.Generator) -> Draft:
    start = _random_camera(room, rng)
    return Draft(start, _turned(start, rng))


def _translation(room: TargetRoom, rng: np.random.Generator) -> Draft | None:
    start, target = _random_camera(room, rng), _random_camera(room, rng)
    target = replace(target, yaw=start.yaw)
    return Draft(start, target) if _is_near(room, start, target) else None


def _near(room: TargetRoom, rng: np.random.Generator) -> Draft | None:
    start = _random_camera(room, rng)
    target = _at_some_height(_turned(start, rng), room, rng)
    return Draft(start, target) if _is_near(room, start, target) else None


def _far(room: TargetRoom, rng: np.random.Generator) -> Draft | None:
    start = _random_camera(room, rng)
    target = _at_some_height(_turned(start, rng), room, rng)
    if not room.is_hidden(target.position, start):
        return None
    length = ShortestPaths(room.space, target.position).length(start.position)
    return Draft(start, target) if length is not None and length >= FAR_METRES else None


def _described(room: TargetRoom, rng: np.random.Generator) -> Draft | None:
    start = _random_camera(room, rng)
    described = describe_view(room, _random_camera(room, rng), rng)
    if described is None:
        return None
    target, view = described
    moved = math.dist(start.position, target.position)
    if (
        moved < NEAR_METRES[0]
        or ShortestPaths(room.space, target.position).length(start.position) is None
    ):
        return None
    return Draft(start, target, TEXT.format(view=view))


TIERS: Mapping[str, Callable[[TargetRoom, np.random.Generator], Draft | None]] = {
    "rotation": _rotation,
    "translation": _translation,
    "near": _near,
    "far": _far,
    "described": _described,
}


def _at_some_height(camera: Camera, room: TargetRoom, rng: np.random.Generator) -> Camera:
    place = room.places[rng.integers(len(room.places))] + (0.0, 0.0, float(rng.choice(LEVELS)))
    return camera.at(place)


def _is_near(room: TargetRoom, start: Camera, target: Camera) -> bool:
    """Return True if a short straight move leads to a target."""
    low, high = NEAR_METRES
    if not low <= math.dist(start.position, target.position) <= high:
        return False
    path = ShortestPaths(room.space, target.position).waypoints(start.position)
    return path is not None and len(path) == 2


def draw_targets(
    room: TargetRoom, tier: str, seed: int, origin: tuple[float, float, float]
) -> Iterator[dict[str, Any]]:
    """Yield rows of a question file for one tier without end, or until MAX_ATTEMPTS in a row fail.

    `origin` is the offset of the scene from the frame of its file. No two targets of a room are alike.
    """
    rng = np.random.default_rng((seed, zlib.crc32(f"{room.scene.id} {tier}".encode())))
    number, failures = 0, 0
    while failures < MAX_ATTEMPTS:
        failures += 1
        draft = TIERS[tier](room, rng)
        if draft is None or not _is_good(room, draft):
            continue
        yield {
            "id": f"{room.scene.id}-{tier}-{number}",
            "dataset": "own",
            "scene_name": room.scene.id,
            "question_type": f"reach_view_{tier}",
            "question": draft.text,
            "ground_truth": list(_file_pose(draft.target, origin)),
            "start": list(_file_pose(draft.start, origin)[:4]),
        }
        number, failures = number + 1, 0


def _is_good(room: TargetRoom, draft: Draft) -> bool:
    """Return True if a target is at a free place, recognisable and reachable."""
    place = draft.target.position
    if not np.allclose(room.space.nearest_free(place), place):
        return False
    is_recognisable = room.has_content(draft.target) and room.is_distinct(draft.target)
    return is_recognisable and _is_reachable(room, draft)


def _is_reachable(room: TargetRoom, draft: Draft) -> bool:
    """Return True if MAX_STEPS moves lead from the start to the target."""
    camera, paths = draft.start, ShortestPaths(room.space, draft.target.position)
    for _ in range(MAX_STEPS):
        camera, _ = apply_action(step_towards(camera, draft.target, paths), camera, room.space)
    return pose_error(pose_of(camera), pose_of(draft.target)).is_within(*StrictViewSuccess.limits)


def _file_pose(camera: Camera, origin: tuple[float, float, float]) -> Pose:
    return pose_of(camera.at(np.array(camera.position) + origin))
