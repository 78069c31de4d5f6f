"""Moves: `apply_action` moves the camera and returns the outcome as data; `describe_outcome` turns it into feedback."""

from __future__ import annotations

import math
from collections.abc import Iterator

from msgspec import Struct

from render_agent.dialogue.reply import FIELDS, MAX_MOVE_METRES, MAX_ROTATION_DEGREES, Action
from render_agent.dialogue.wording import Wording
from render_agent.scans.camera import MAX_PITCH, Camera, Vector, wrap_degrees
from render_agent.scans.free_space.free_space import FreeSpace, Obstacle
from render_agent.util.safe_parse import Finite

MIN_MOVE = 0.005  # metres or degrees; smaller moves are treated as zero

# Metres forward, left and up, relative to the heading after rotation.
Steps = tuple[Finite, Finite, Finite]

# Names of a positive and a negative step along each axis of `Steps`. The first is an attribute of `Action`.
AXES = (("forward", "back"), ("left", "right"), ("up", "down"))

FIELD_NAMES = {field.attribute: field.name for field in FIELDS}  # attribute of Action -> reply key


class Outcome(Struct, frozen=True):
    """The effect of a move, compared with the request."""

    turned: Finite = 0.0
    """Degrees of rotation before the move, positive to the left; with `look_at`, the turn towards the point."""
    requested: Steps = (0.0, 0.0, 0.0)  # requested metres, clamped to the limits of one turn
    moved: Steps = (0.0, 0.0, 0.0)
    limits: tuple[str, ...] = ()  # keys of the reply whose values exceeded a limit
    level_obstacle: Obstacle | None = None
    """What stopped the horizontal move; None if it was completed."""
    vertical_obstacle: Obstacle | None = None
    """What stopped the move up or down; None if it was completed."""

    @property
    def is_short(self) -> bool:
        """True if the camera moved or turned less than requested."""
        return bool(self.limits or self.level_obstacle or self.vertical_obstacle)


def apply_action(
    action: Action,
    camera: Camera,
    space: FreeSpace,  # the free space of the scene, in the same frame
) -> tuple[Camera, Outcome]:
    """Apply an action to the camera, as far as obstacles and limits allow.

    The camera first turns: towards `look_at` if given (rotation and pitch are then ignored), otherwise by rotation
    and pitch. It then moves horizontally in its new heading, and finally up or down. With `look_at`, it finally turns
    to the point again.
    """
    limits = []
    if action.look_at is None:
        rotation = _clamp(action.rotation, MAX_ROTATION_DEGREES)
        heading = camera.turned(rotation, action.pitch)
        if abs(action.rotation) > MAX_ROTATION_DEGREES:
            limits.append("rotation")
        tilt = heading.pitch - camera.pitch
        if action.pitch and not math.isclose(tilt, action.pitch, abs_tol=1e-9):
            limits.append("pitch")
    else:
        heading = camera.looking_at(action.look_at)
        rotation = wrap_degrees(heading.yaw - camera.yaw)
    limits += [axis for axis, _ in AXES if abs(getattr(action, axis)) > MAX_MOVE_METRES]
    forward, leftward, up = (_clamp(getattr(action, axis), MAX_MOVE_METRES) for axis, _ in AXES)
    after, level, level_obstacle = _advance(heading, (forward, leftward, 0.0), space)
    after, vertical, vertical_obstacle = _advance(after, (0.0, 0.0, up), space)
    if action.look_at is not None and after.position != camera.position:
        after = after.looking_at(action.look_at)
    return after, Outcome(
        rotation,
        (forward, leftward, up),
        (level[0], level[1], vertical[2]),
        tuple(FIELD_NAMES[attribute] for attribute in limits),
        level_obstacle,
        vertical_obstacle,
    )


def _clamp(value: float, limit: float) -> float:
    """Clamp a value to ±limit; values below MIN_MOVE become 0."""
    return math.copysign(min(abs(value), limit), value) if abs(value) >= MIN_MOVE else 0.0


def _advance(
    camera: Camera, steps: Steps, space: FreeSpace
) -> tuple[Camera, Steps, Obstacle | None]:
    """Move the camera until it hits an obstacle; return it, the steps moved and the obstacle."""
    if not any(steps):
        return camera, steps, None
    end, obstacle = space.advance(camera.position, camera.offset(*steps))
    if obstacle is None:
        return camera.at(end), steps, None
    metres = math.dist(end, camera.position)
    if metres < MIN_MOVE:
        return camera, (0.0, 0.0, 0.0), obstacle
    fraction = metres / math.hypot(*steps)
    forward, leftward, up = (fraction * step for step in steps)
    return camera.at(end), (forward, leftward, up), obstacle


def describe_outcome(
    action: Action, before: Camera, after: Camera, outcome: Outcome, wording: Wording
) -> str:
    """Return the feedback sentence that tells the model what `action` did."""
    clauses = [
        *_describe_rotation(action, before, after, outcome, wording),
        *_describe_steps(action, outcome, slice(2), outcome.level_obstacle, wording),
        *_describe_steps(action, outcome, slice(2, 3), outcome.vertical_obstacle, wording),
    ]
    if action.look_at is not None:
        if after.position != before.position:
            clauses.append(wording("moves.turned_again"))
        clauses += _describe_off_centre(action.look_at, after, wording)
    return "; ".join(clauses) or wording("moves.none")


def _describe_rotation(
    action: Action, before: Camera, after: Camera, outcome: Outcome, wording: Wording
) -> Iterator[str]:
    if action.look_at is not None:
        if action.rotation or action.pitch:
            yield wording("moves.look_at_alone")
        point = ", ".join(map(_number, action.look_at))
        yield wording("moves.turned_to_point", point=f"({point})")
        return
    degrees = _number(abs(outcome.turned))
    if (field := FIELD_NAMES["rotation"]) in outcome.limits:
        value = _number(action.rotation)
        yield wording("moves.degrees_limited", field=field, value=value, limit=degrees)
    if outcome.turned:
        yield wording(f"moves.turned_{'left' if outcome.turned > 0 else 'right'}", degrees=degrees)
    if not action.pitch:
        return
    limit, pitch = _number(MAX_PITCH), _number(after.pitch)
    if math.isclose(before.pitch, after.pitch):
        yield wording("moves.pitch_at_limit", limit=limit, pitch=pitch)
        return
    key = f"moves.tilted_{'up' if action.pitch > 0 else 'down'}"
    tilt = wording(key, degrees=_number(abs(after.pitch - before.pitch)), pitch=pitch)
    if FIELD_NAMES["pitch"] in outcome.limits:
        tilt = wording("moves.tilted_short", tilted=tilt, limit=limit)
    yield tilt


def _describe_steps(
    action: Action, outcome: Outcome, axes: slice, obstacle: Obstacle | None, wording: Wording
) -> Iterator[str]:
    """Describe the steps along a slice of AXES and the obstacle, if any, that stopped them."""
    steps = []
    values = [*zip(AXES, outcome.requested, outcome.moved, strict=True)]
    for directions, requested, moved in values[axes]:
        attribute, metres = directions[0], _number(abs(requested))
        if (field := FIELD_NAMES[attribute]) in outcome.limits:
            value = _number(getattr(action, attribute))
            yield wording("moves.metres_limited", field=field, value=value, limit=metres)
        if requested:
            steps.append((directions[requested < 0], metres, moved))
    if not steps:
        return
    key, way = ("moved", "way") if obstacle is None else ("moved_short", "way_short")
    ways = [wording(f"directions.{side}") for side, _, _ in steps]
    if any(moved for _, _, moved in steps):
        ways = [
            wording(f"moves.{way}", metres=metres, done=_number(abs(moved)), direction=direction)
            for direction, (_, metres, moved) in zip(ways, steps, strict=True)
        ]
    else:
        key = "blocked"
    path = ways[0] if len(ways) == 1 else wording("moves.both_ways", first=ways[0], second=ways[1])
    obstacle_text = ""
    if obstacle is not None:
        # A wall during a vertical move, or the floor during a level one, is not in the direction of travel.
        sideways = {"wall"} if axes.start else {"floor", "ceiling"}
        is_generic = len(steps) > 1 or obstacle in sideways
        side = "in_the_way" if is_generic else steps[0][0]
        obstacle_text = wording(f"obstacles.{obstacle}", where=wording(f"sides.{side}"))
    yield wording(f"moves.{key}", ways=path, obstacle=obstacle_text)


def _describe_off_centre(point: Vector, camera: Camera, wording: Wording) -> Iterator[str]:
    """Report that the pitch limit keeps the point from being centred in the image."""
    x, y, z = (p - c for p, c in zip(point, camera.position, strict=True))
    level = math.hypot(x, y)
    if level < MIN_MOVE and abs(z) < MIN_MOVE:
        yield wording("moves.at_point")
    elif abs(math.degrees(math.atan2(z, level))) > MAX_PITCH + 1e-6:
        yield wording(f"moves.point_{'above' if z > 0 else 'below'}", limit=_number(MAX_PITCH))


def _number(value: float) -> str:
    """Format a number with at most two decimals; from one million on, in scientific notation."""
    if abs(value) >= 1e6:
        return f"{value:.0e}"
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text
