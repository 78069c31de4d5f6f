"""Chooses the expert's moves: towards objects worth a closer look, and to places not looked at yet."""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Sequence
from typing import Any

from render_agent.dialogue.chat import View
from render_agent.scans.camera import Camera, wrap_degrees
from render_agent.scans.free_space.free_space import FreeSpace
from render_agent_lab.expert.floor import Point, WalkableFloor

Move = dict[str, Any]  # reply fields that move the camera or choose the next view

ROTATION_STEP_DEGREES = 5  # degrees; rotations are whole multiples

FAR_METRES = 3.0  # metres; the expert steps closer to objects farther away than this

STEP_METRES = (2, 1.5, 1, 0.5)  # metres forward per turn, longest first

ASIDE_DEGREES = (0, 5, -5, 10, -10)  # degrees off the path to try if the direct step is blocked

GOAL_TOLERANCE_METRES = 0.1  # metres by which a step may fall short of its goal on the path

AROUND: Move = {"view": "around"}  # looks in all directions

# Categories that hang from the ceiling: not on maps, not visible from below when level.
CEILING_CATEGORIES = ("ceiling light", "ceiling fan")

AROUND_UP: Move = {"pitch_degrees": 45, **AROUND}  # looks in all directions, up at the ceiling

WRONG_TURN_PROBABILITY = 0.1  # probability of a wrong turn, unless the previous one was wrong

# Degrees from the image centre within which the camera counts as having looked at a point.
FACING_DEGREES = 20

SAME_PLACE_METRES = 0.3  # metres; positions this close show the same

# Minimum distance in metres from every earlier position; nearer positions show nothing new.
MIN_NEW_METRES = 1.0


def standing_cameras(views: Sequence[View]) -> list[Camera]:
    """Return the cameras of all views except maps, in order."""
    return [view.camera for view in views if isinstance(view.camera, Camera)]


def is_wrong_turn(question_id: str, seed: int, turn: int) -> bool:
    """Return True if the expert errs in a turn, never twice in a row; training may skip such a reply."""
    if turn < 0 or _random(question_id, seed, turn).random() >= WRONG_TURN_PROBABILITY:
        return False
    return not is_wrong_turn(question_id, seed, turn - 1)


def wrong_turn(question_id: str, seed: int, turn: int) -> Move:
    """Return a useless rotation drawn from question, seed and turn."""
    rng = _random(question_id, seed, turn)
    rng.random()
    degrees = rng.randrange(30, 155, ROTATION_STEP_DEGREES)
    return {"rotation_angle_degrees": rng.choice((-1, 1)) * degrees}


def all_overhead(names: Collection[str]) -> bool:
    """Return True if all categories hang from the ceiling."""
    return set(names) <= set(CEILING_CATEGORIES)


def first_look(names: Collection[str]) -> Move:
    """Return the first look around for some categories, at the ceiling if all of them hang there."""
    return AROUND_UP if all_overhead(names) else AROUND


def look_at_ceiling(cameras: Sequence[Camera], missing: Collection[str]) -> Move | None:
    """Return a look at the ceiling if all missing categories hang there; None if that was done already."""
    has_looked = any(camera.pitch > 0 for camera in cameras)
    return None if has_looked or not all_overhead(missing) else AROUND_UP


def level_camera(camera: Camera, move: Move) -> Move:
    """Return the move with the camera levelled again."""
    return {**move, "pitch_degrees": -round(camera.pitch)} if camera.pitch else move


def has_faced(cameras: Sequence[Camera], point: Point) -> bool:
    """Return True if one of the cameras looked towards a point."""
    return any(abs(wrap_degrees(_bearing(c, point) - c.yaw)) <= FACING_DEGREES for c in cameras)


def approach(camera: Camera, point: Point, space: FreeSpace) -> Move:
    """Return a turn towards a point, with the longest free step closer if it is far."""
    move = _rotate_towards(camera, point)
    away = math.dist(camera.position[:2], point)
    for step in STEP_METRES if away > FAR_METRES + 1 else STEP_METRES[2:]:
        if away > FAR_METRES and _is_free(camera, move, step, space):
            return {**move, "forward_meters": step}
    return move


def explore(
    views: Sequence[View], floor: WalkableFloor | None, space: FreeSpace, *, within: bool = True
) -> Move | None:
    """Return a step towards the next place not looked at yet; None if there is none.

    The step first leads to the middle of the nearest room not yet entered. Then, if `within`, the camera looks around
    in quarter turns, and goes to the position farthest from all earlier ones to look around there. Without a floor,
    makes a quarter turn to the left and steps forward.
    """
    cameras = standing_cameras(views)
    camera = cameras[-1]
    if floor is None:
        return (
            {**_with_step(camera, {"rotation_angle_degrees": 90}, space), **AROUND}
            if within
            else None
        )
    path = _path_to_rooms(cameras, floor)
    if path is None and within:
        if quarter := _next_quarter(views):
            return quarter
        path = _path_to_farthest(cameras, floor)
    move = None if path is None else _step(camera, path, space)
    return None if move is None else {**move, **AROUND}


def _next_quarter(views: Sequence[View]) -> Move | None:
    """Return the turn to a quarter that no single image has shown from here; None if all have been shown."""
    camera = standing_cameras(views)[-1]
    shown_quarters = [
        view.camera.yaw
        for view in views
        if view.kind == "ego"
        and isinstance(view.camera, Camera)
        and math.dist(view.camera.position, camera.position) < SAME_PLACE_METRES
    ]
    for degrees in (90, 180, -90):
        if all(abs(wrap_degrees(camera.yaw + degrees - yaw)) > 45 for yaw in shown_quarters):
            return {"rotation_angle_degrees": degrees}
    return None


def _path_to_rooms(cameras: Sequence[Camera], floor: WalkableFloor) -> list[Point] | None:
    """Return the path to the middle of the nearest room not yet entered; None if there is none."""
    entered_rooms = {floor.room_of(_position(camera)) for camera in cameras}
    new = [number for number in range(len(floor.truth.rooms)) if number not in entered_rooms]
    if not new:
        return None
    paths = floor.paths_from(_position(cameras[-1]))
    goals = {number: goal for number in new if (goal := floor.centre_node(number, paths))}
    if not goals:
        return None
    nearest_room = min(goals, key=lambda number: (paths.metres[goals[number]], number))
    return floor.path_to(paths, goals[nearest_room])


def _path_to_farthest(cameras: Sequence[Camera], floor: WalkableFloor) -> list[Point] | None:
    """Return the path to the position farthest from all earlier ones; None if it is too near."""
    paths = floor.paths_from(_position(cameras[-1]))
    cell = floor.farthest_node([_position(camera) for camera in cameras], paths)
    if cell is None or cell[1] < MIN_NEW_METRES:
        return None
    return floor.path_to(paths, cell[0])


def _step(camera: Camera, path: Sequence[Point], space: FreeSpace) -> Move | None:
    """Return the longest free step straight to a point on the path; None if every step is blocked."""
    for step in STEP_METRES:
        near = [
            point
            for point in path
            if math.dist(camera.position[:2], point) <= step + GOAL_TOLERANCE_METRES
        ]
        for aside in ASIDE_DEGREES:
            move = _rotate_towards(camera, near[-1], aside) if near else {}
            if near and _is_free(camera, move, step, space):
                return {**move, "forward_meters": step}
    return None


def _with_step(camera: Camera, move: Move, space: FreeSpace) -> Move:
    """Return a move extended by the longest free step."""
    for step in STEP_METRES:
        if _is_free(camera, move, step, space):
            return {**move, "forward_meters": step}
    return move


def _rotate_towards(camera: Camera, point: Point, aside: int = 0) -> Move:
    """Return the rounded rotation towards a point plus `aside` degrees; empty if it is zero."""
    degrees = (
        round(wrap_degrees(_bearing(camera, point) - camera.yaw) / ROTATION_STEP_DEGREES)
        * ROTATION_STEP_DEGREES
        + aside
    )
    return {"rotation_angle_degrees": degrees} if degrees else {}


def _is_free(camera: Camera, move: Move, step: float, space: FreeSpace) -> bool:
    """Return True if a step forward after a rotation is not blocked."""
    target = camera.turned(move.get("rotation_angle_degrees", 0)).offset(step, 0.0, 0.0)
    return space.advance(camera.position, target)[1] is None


def _bearing(camera: Camera, point: Point) -> float:
    x, y = _position(camera)
    return math.degrees(math.atan2(point[1] - y, point[0] - x))


def _position(camera: Camera) -> Point:
    return camera.position[0], camera.position[1]


def _random(question_id: str, seed: int, turn: int) -> random.Random:
    return random.Random(f"expert {seed} {turn} {question_id}".encode("utf-8", "backslashreplace"))
