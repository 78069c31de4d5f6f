"""An action carried out: the camera's next pose, and the words that tell the model what was done."""

from __future__ import annotations

import math
from dataclasses import dataclass

from render_agent.dialogue.reply import Action
from render_agent.geometry.camera import MAX_PITCH, Camera, Vector
from render_agent.scene.free_space.free_space import FreeSpace, Obstacle

SIDE_WORDS = {
    "forward": "ahead",
    "back": "behind",
    "to the left": "on the left",
    "to the right": "on the right",
    "up": "above",
    "down": "below",
}
"""Where an obstacle is that stops a move in a direction."""

OBSTACLE_WORDS: dict[Obstacle, str] = {
    "wall": "a wall is",
    "furniture": "furniture is",
    "floor": "the floor is",
    "ceiling": "the ceiling is",
    "bounds": "the end of the scan is",
}

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
    action: Action, camera: Camera, space: FreeSpace, limits: Limits = Limits()
) -> StepResult:
    """Return the camera after `action`, and the words on what was done and what was limited.

    First the camera turns: towards `look_at` where one is given (rotation and pitch are then left
    out), else by rotation and pitch. Then it moves level in its new heading, then up or down. With
    `look_at` it turns to the point again from where it ended.
    """
    words: list[str] = []
    turned = _turned(action, camera, limits, words)
    moved = _moved_level(action, turned, space, limits, words)
    moved = _moved_up(action, moved, space, limits, words)
    if action.look_at is not None and moved.position != turned.position:
        moved = moved.looking_at(action.look_at)
        words.append("then turned to the point again from there")
    if action.look_at is not None:
        words += _out_of_the_middle(moved, action.look_at)
    return StepResult(moved, "; ".join(words) or "the camera did not move")


def _turned(action: Action, camera: Camera, limits: Limits, words: list[str]) -> Camera:
    if action.look_at is not None:
        if action.rotation or action.pitch:
            words.append("rotation and pitch were left out, as look_at was given")
        words.append(f"turned to the point {_point(action.look_at)}")
        return camera.looking_at(action.look_at)
    rotation = _limited(action.rotation, limits.rotation, "rotation_angle_degrees", "°", words)
    if rotation:
        words.append(f"turned {_number(abs(rotation))}° {'left' if rotation > 0 else 'right'}")
    turned = camera.turned(rotation, action.pitch)
    if action.pitch:
        words.append(_tilted(action.pitch, camera.pitch, turned.pitch))
    return turned


def _tilted(pitch: float, before: float, after: float) -> str:
    within = f"pitch stays within ±{_number(MAX_PITCH)}°"
    if math.isclose(before, after):
        return f"{within}: it is {_number(after)}° already"
    words = f"tilted {_number(abs(after - before))}° {'up' if pitch > 0 else 'down'}"
    short = not math.isclose(after - before, pitch, abs_tol=1e-9)
    return f"{words}, pitch is now {_number(after)}°" + (f": {within}" if short else "")


def _moved_level(
    action: Action, camera: Camera, space: FreeSpace, limits: Limits, words: list[str]
) -> Camera:
    forward = _limited(action.forward, limits.metres, "forward_meters", " m", words)
    left = _limited(action.left, limits.metres, "left_meters", " m", words)
    directions = [
        (abs(forward), "forward" if forward > 0 else "back"),
        (abs(left), "to the left" if left > 0 else "to the right"),
    ]
    parts = [(metres, way) for metres, way in directions if metres]
    if not parts:
        return camera
    where = SIDE_WORDS[parts[0][1]] if len(parts) == 1 else "in the way"
    return _advanced(camera, (forward, left, 0.0), parts, where, space, limits, words)


def _moved_up(
    action: Action, camera: Camera, space: FreeSpace, limits: Limits, words: list[str]
) -> Camera:
    up = _limited(action.up, limits.metres, "z_delta_meters", " m", words)
    if not up:
        return camera
    way = "up" if up > 0 else "down"
    return _advanced(
        camera, (0.0, 0.0, up), [(abs(up), way)], SIDE_WORDS[way], space, limits, words
    )


def _advanced(
    camera: Camera,
    steps: Vector,
    parts: list[tuple[float, str]],
    where: str,
    space: FreeSpace,
    limits: Limits,
    words: list[str],
) -> Camera:
    """Return the camera moved by `steps` (forward, left, up), metres, as far as it is free."""
    offset = camera.offset(*steps)
    end, obstacle = space.advance(camera.position, offset, limits.clearance)
    gone = math.dist(end, camera.position)
    if obstacle is None:
        words.append("moved " + " and ".join(f"{_number(metres)} m {way}" for metres, way in parts))
        return camera.at(end)
    if obstacle in OBSTACLES_OFF_THE_WAY[bool(steps[2])]:
        where = "in the way"
    blocked = f"{OBSTACLE_WORDS[obstacle]} {where}"
    if gone < MIN_MOVE:
        words.append(f"could not move {' and '.join(way for _, way in parts)}: {blocked}")
        return camera
    share = gone / math.hypot(*steps)
    done = [f"{_number(share * metres)} of {_number(metres)} m {way}" for metres, way in parts]
    words.append(f"moved {' and '.join(done)}: {blocked}")
    return camera.at(end)


def _out_of_the_middle(camera: Camera, point: Vector) -> list[str]:
    """Say where the pitch's limit keeps a point out of the middle of the picture."""
    x, y, z = (p - c for p, c in zip(point, camera.position, strict=True))
    level = math.hypot(x, y)
    if level < MIN_MOVE and abs(z) < MIN_MOVE:
        return ["the camera stands at that very point"]
    if abs(math.degrees(math.atan2(z, level))) <= MAX_PITCH + 1e-6:
        return []
    return [
        f"pitch stays within ±{_number(MAX_PITCH)}°, so the point is"
        f" {'above' if z > 0 else 'below'} the middle of the picture"
    ]


def _limited(value: float, most: float, name: str, unit: str, words: list[str]) -> float:
    if abs(value) <= most:
        return value if abs(value) >= MIN_MOVE else 0.0
    words.append(f"{name} {_number(value)} was limited to {_number(most)}{unit} a turn")
    return math.copysign(most, value)


def _point(point: Vector) -> str:
    return f"({', '.join(_number(value) for value in point)})"


def _number(value: float) -> str:
    """Return a number with two decimals at the most, one that no room has in short."""
    if abs(value) >= 1e6:
        return f"{value:.0e}"
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text
