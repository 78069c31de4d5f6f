"""An action carried out: the camera's next pose, and the words that tell the model what was done."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from render_agent.dialogue.reply import Action
from render_agent.dialogue.wording import Wording
from render_agent.scans.camera import MAX_PITCH, Camera, Vector
from render_agent.scans.free_space.free_space import FreeSpace, Obstacle

OBSTACLES_OFF_THE_WAY: dict[bool, tuple[Obstacle, ...]] = {
    False: ("floor", "ceiling"),
    True: ("wall",),
}
"""Obstacles that stop a level move, or one up or down (True), without lying where it leads."""

MIN_MOVE = 0.005
"""Metres or degrees: less is no move."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one turn may do at most: metres in each direction, degrees of rotation, and how near,
    in metres, the camera may come to walls and furniture."""

    metres: float = 2.0
    rotation: float = 180.0
    clearance: float = 0.2


@dataclass(frozen=True, slots=True)
class StepResult:
    """The camera after an action, and what was really done, in words for the model."""

    camera: Camera
    feedback: str


def carry_out(
    action: Action,
    camera: Camera,
    space: FreeSpace,
    wording: Wording,
    limits: Limits = Limits(),
) -> StepResult:
    """Return the camera after `action`, and the words on what was done and what was limited.

    First the camera turns: towards `look_at` where one is given (rotation and pitch are then left
    out), else by rotation and pitch. Then it moves level in its new heading, then up or down. With
    `look_at` it turns to the point again from where it ended.
    """
    move = _Move(space, wording, limits, [])
    turned = move.turned(action, camera)
    moved = move.moved_level(action, turned)
    moved = move.moved_up(action, moved)
    if action.look_at is not None:
        if moved.position != turned.position:
            moved = moved.looking_at(action.look_at)
            move.tell("turned_again")
        move.tell_off_centre(moved, action.look_at)
    return StepResult(moved, "; ".join(move.told) or wording("moves.none"))


@dataclass(frozen=True, slots=True)
class _Move:
    """The parts of a move, and what is told of each."""

    space: FreeSpace
    wording: Wording
    limits: Limits
    told: list[str]

    def tell(self, key: str, **values: object) -> None:
        self.told.append(self.wording(f"moves.{key}", **values))

    def turned(self, action: Action, camera: Camera) -> Camera:
        if action.look_at is not None:
            if action.rotation or action.pitch:
                self.tell("look_at_alone")
            self.tell("turned_to_point", point=_point(action.look_at))
            return camera.looking_at(action.look_at)
        rotation = self._limited(
            action.rotation, self.limits.rotation, "rotation_angle_degrees", "degrees_limited"
        )
        if rotation:
            key = "turned_left" if rotation > 0 else "turned_right"
            self.tell(key, degrees=_number(abs(rotation)))
        turned = camera.turned(rotation, action.pitch)
        if action.pitch:
            self._tell_tilt(action.pitch, camera.pitch, turned.pitch)
        return turned

    def _tell_tilt(self, pitch: float, before: float, after: float) -> None:
        limit, now = _number(MAX_PITCH), _number(after)
        if math.isclose(before, after):
            self.tell("pitch_at_limit", limit=limit, pitch=now)
            return
        key = "moves.tilted_up" if pitch > 0 else "moves.tilted_down"
        tilted = self.wording(key, degrees=_number(abs(after - before)), pitch=now)
        if math.isclose(after - before, pitch, abs_tol=1e-9):
            self.told.append(tilted)
        else:
            self.tell("tilted_short", tilted=tilted, limit=limit)

    def moved_level(self, action: Action, camera: Camera) -> Camera:
        forward = self._limited_metres(action.forward, "forward_meters")
        left = self._limited_metres(action.left, "left_meters")
        directions = [
            (abs(forward), "forward" if forward > 0 else "back"),
            (abs(left), "left" if left > 0 else "right"),
        ]
        return self._advanced(camera, (forward, left, 0.0), directions)

    def moved_up(self, action: Action, camera: Camera) -> Camera:
        up = self._limited_metres(action.up, "z_delta_meters")
        return self._advanced(camera, (0.0, 0.0, up), [(abs(up), "up" if up > 0 else "down")])

    def _advanced(
        self, camera: Camera, steps: Vector, directions: Sequence[tuple[float, str]]
    ) -> Camera:
        """Return the camera moved by `steps` (forward, left, up), metres, as far as it is free."""
        parts = [(metres, direction) for metres, direction in directions if metres]
        if not parts:
            return camera
        end, obstacle = self.space.advance(
            camera.position, camera.offset(*steps), self.limits.clearance
        )
        words = self.wording
        names = [words(f"directions.{direction}") for _, direction in parts]
        if obstacle is None:
            ways = [
                words("moves.way", metres=_number(metres), direction=name)
                for (metres, _), name in zip(parts, names, strict=True)
            ]
            self.tell("moved", ways=self._both(ways))
            return camera.at(end)
        sideways = len(parts) > 1 or obstacle in OBSTACLES_OFF_THE_WAY[bool(steps[2])]
        where = words(f"sides.{'in_the_way' if sideways else parts[0][1]}")
        blocked = words(f"obstacles.{obstacle}", where=where)
        gone = math.dist(end, camera.position)
        if gone < MIN_MOVE:
            self.tell("blocked", ways=self._both(names), obstacle=blocked)
            return camera
        share = gone / math.hypot(*steps)
        ways = [
            words(
                "moves.way_short",
                done=_number(share * metres),
                metres=_number(metres),
                direction=name,
            )
            for (metres, _), name in zip(parts, names, strict=True)
        ]
        self.tell("moved_short", ways=self._both(ways), obstacle=blocked)
        return camera.at(end)

    def _both(self, ways: Sequence[str]) -> str:
        if len(ways) == 1:
            return ways[0]
        return self.wording("moves.both_ways", first=ways[0], second=ways[1])

    def tell_off_centre(self, camera: Camera, point: Vector) -> None:
        """Say where the pitch's limit keeps a point out of the middle of the picture."""
        x, y, z = (p - c for p, c in zip(point, camera.position, strict=True))
        level = math.hypot(x, y)
        if level < MIN_MOVE and abs(z) < MIN_MOVE:
            self.tell("at_point")
        elif abs(math.degrees(math.atan2(z, level))) > MAX_PITCH + 1e-6:
            self.tell("point_above" if z > 0 else "point_below", limit=_number(MAX_PITCH))

    def _limited_metres(self, value: float, field: str) -> float:
        return self._limited(value, self.limits.metres, field, "metres_limited")

    def _limited(self, value: float, limit: float, field: str, key: str) -> float:
        if abs(value) <= limit:
            return value if abs(value) >= MIN_MOVE else 0.0
        self.tell(key, field=field, value=_number(value), limit=_number(limit))
        return math.copysign(limit, value)


def _point(point: Vector) -> str:
    return f"({', '.join(_number(value) for value in point)})"


def _number(value: float) -> str:
    """Return a number with two decimals at the most, one that no room has in short."""
    if abs(value) >= 1e6:
        return f"{value:.0e}"
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text
