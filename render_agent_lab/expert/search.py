"""Where the expert turns and goes: to what it would see better, and to where it has not looked yet."""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Sequence
from typing import Any

from render_agent.dialogue.view import View
from render_agent.scans.camera import Camera, wrapped
from render_agent.scans.free_space.free_space import FreeSpace
from render_agent_lab.expert.floor import Floor, Point

Move = dict[str, Any]
"""The fields of a reply that move the camera or choose the next view."""

STEP = 5
"""Degrees: rotations are whole multiples."""

FAR = 3.0
"""Metres: what is farther away is looked at from nearer."""

STEPS = (2, 1.5, 1, 0.5)
"""Metres that the camera goes forward in a turn."""

ASIDE = (0, 5, -5, 10, -10)
"""Degrees off the way in which a step is tried where nothing else is free."""

BEYOND = 0.1
"""Metres that a step may fall short of the place on the way to which it goes."""

AROUND: Move = {"view": "around"}
"""A look all around."""

OVERHEAD = ("ceiling light", "ceiling fan")
"""What hangs from the ceiling: no map shows it, and nobody sees it who stands below and looks straight on."""

UP: Move = {"pitch_degrees": 45, **AROUND}
"""A look all around at the ceiling."""

WRONG = 0.1
"""How often a turn is a wrong one, after one that was not."""

BESIDE = 20
"""Degrees: the camera looked at what was no farther than this from the middle of its picture."""

SAME = 0.3
"""Metres: from so near it looks at the same."""

NEW = 1.0
"""Metres from every place where it stood: nearer than this there is nothing new to be seen."""


def stood(views: Sequence[View]) -> list[Camera]:
    """Return the cameras of all views but maps, in their order."""
    return [view.camera for view in views if isinstance(view.camera, Camera)]


def is_wrong_turn(question_id: str, seed: int, turn: int) -> bool:
    """Whether the expert goes wrong in a turn, never twice in a row; learners may leave that reply out."""
    if turn < 0 or _chance(question_id, seed, turn).random() >= WRONG:
        return False
    return not is_wrong_turn(question_id, seed, turn - 1)


def wrong_turn(question_id: str, seed: int, turn: int) -> Move:
    """Return a rotation that leads nowhere, drawn from question, seed and turn."""
    chance = _chance(question_id, seed, turn)
    chance.random()
    degrees = chance.randrange(30, 155, STEP)
    return {"rotation_angle_degrees": chance.choice((-1, 1)) * degrees}


def overhead(names: Collection[str]) -> bool:
    """Whether all of some categories hang from the ceiling."""
    return set(names) <= set(OVERHEAD)


def around(names: Collection[str]) -> Move:
    """Return the first look all around for some categories: at the ceiling where all of them hang there."""
    return UP if overhead(names) else AROUND


def upwards(cameras: Sequence[Camera], missing: Collection[str]) -> Move | None:
    """Return the look at the ceiling, once, where all that is missing hangs there."""
    looked = any(camera.pitch > 0 for camera in cameras)
    return None if looked or not overhead(missing) else UP


def levelled(camera: Camera, move: Move) -> Move:
    """Return a move after which the camera looks straight on again."""
    return {**move, "pitch_degrees": -round(camera.pitch)} if camera.pitch else move


def faced(cameras: Sequence[Camera], point: Point) -> bool:
    """Whether one of the cameras looked towards a place, metres."""
    return any(abs(wrapped(_bearing(c, point) - c.yaw)) <= BESIDE for c in cameras)


def towards(camera: Camera, point: Point, space: FreeSpace) -> Move:
    """Return the turn to a place, and a step closer to one that is far, as far as nothing is in the way."""
    move = _turned(camera, point)
    away = math.dist(camera.position[:2], point)
    for step in STEPS if away > FAR + 1 else STEPS[2:]:
        if away > FAR and _free(camera, move, step, space):
            return {**move, "forward_meters": step}
    return move


def onwards(
    views: Sequence[View], floor: Floor | None, space: FreeSpace, *, within: bool = True
) -> Move | None:
    """Return the step towards the next place not looked at yet, None where there is none.

    Rooms in which it has not stood come first, the nearest of them, and in it its middle. Then (within)
    it looks more closely where it stands, a quarter turn at a time, and goes to what is farthest from all
    places where it stood; there it looks all around. Without a floor it makes a quarter turn to the left and goes on.
    """
    cameras = stood(views)
    here = cameras[-1]
    if floor is None:
        return (
            {**_straight(here, {"rotation_angle_degrees": 90}, space), **AROUND} if within else None
        )
    way = _way_to_rooms(cameras, floor)
    if way is None and within:
        if quarter := _quarter(views):
            return quarter
        way = _way_to_farthest(cameras, floor)
    move = None if way is None else _step(here, way, space)
    return None if move is None else {**move, **AROUND}


def _quarter(views: Sequence[View]) -> Move | None:
    """Return the turn to a quarter into which no picture of its own looked from here, None without one."""
    here = stood(views)[-1]
    looked = [
        view.camera.yaw
        for view in views
        if view.kind == "ego"
        and isinstance(view.camera, Camera)
        and math.dist(view.camera.position, here.position) < SAME
    ]
    for degrees in (90, 180, -90):
        if all(abs(wrapped(here.yaw + degrees - yaw)) > 45 for yaw in looked):
            return {"rotation_angle_degrees": degrees}
    return None


def _way_to_rooms(cameras: Sequence[Camera], floor: Floor) -> list[Point] | None:
    """Return the way to the middle of the nearest room in which it has not stood."""
    seen = {floor.room_of(_place(camera)) for camera in cameras}
    new = [number for number in range(len(floor.truth.rooms)) if number not in seen]
    if not new:
        return None
    ways = floor.ways(_place(cameras[-1]))
    goals = {number: goal for number in new if (goal := floor.middle_of(number, ways))}
    if not goals:
        return None
    nearest = min(goals, key=lambda number: (ways.metres[goals[number]], number))
    return floor.along(ways, goals[nearest])


def _way_to_farthest(cameras: Sequence[Camera], floor: Floor) -> list[Point] | None:
    """Return the way to the floor cell farthest from all earlier positions, None where that is too near."""
    ways = floor.ways(_place(cameras[-1]))
    cell = floor.farthest([_place(camera) for camera in cameras], ways)
    if cell is None or cell[1] < NEW:
        return None
    return floor.along(ways, cell[0])


def _step(here: Camera, way: Sequence[Point], space: FreeSpace) -> Move | None:
    """Return the longest free step straight to a place on the way, None where there is none."""
    for step in STEPS:
        near = [point for point in way if math.dist(here.position[:2], point) <= step + BEYOND]
        for aside in ASIDE:
            move = _turned(here, near[-1], aside) if near else {}
            if near and _free(here, move, step, space):
                return {**move, "forward_meters": step}
    return None


def _straight(here: Camera, move: Move, space: FreeSpace) -> Move:
    """Return a turn with the longest free step after it."""
    for step in STEPS:
        if _free(here, move, step, space):
            return {**move, "forward_meters": step}
    return move


def _turned(camera: Camera, point: Point, aside: int = 0) -> Move:
    """Return the rotation to a place, rounded, and then so many degrees aside; none where it is ahead."""
    degrees = round(wrapped(_bearing(camera, point) - camera.yaw) / STEP) * STEP + aside
    return {"rotation_angle_degrees": degrees} if degrees else {}


def _free(camera: Camera, move: Move, step: float, space: FreeSpace) -> bool:
    """Whether nothing stops a step forward after a rotation."""
    ahead = camera.turned(move.get("rotation_angle_degrees", 0)).offset(step, 0.0, 0.0)
    return space.advance(camera.position, ahead)[1] is None


def _bearing(camera: Camera, point: Point) -> float:
    x, y = _place(camera)
    return math.degrees(math.atan2(point[1] - y, point[0] - x))


def _place(camera: Camera) -> Point:
    return camera.position[0], camera.position[1]


def _chance(question_id: str, seed: int, turn: int) -> random.Random:
    return random.Random(f"expert {seed} {turn} {question_id}".encode("utf-8", "backslashreplace"))
