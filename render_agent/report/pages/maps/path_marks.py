"""Overlay of the camera path and the named boxes on a floor plan."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, product
from typing import NamedTuple

from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.turn import Turn
from render_agent.render.map_view.overlay import PlotArea
from render_agent.report.diagnosis.cause import first_clear_turns
from render_agent.report.diagnosis.model import Diagnosis, NamedBox, name_of
from render_agent.report.pages.maps.floor_plan import ScenePlan
from render_agent.scans.camera import Camera
from render_agent.scans.free_space.standing import CLEARANCE_METRES

Pixel = tuple[float, float]
Pose = tuple[int, Camera, Sequence[str]]  # number on the page, camera, kinds of its views

WEDGE_PIXELS = 44.0  # length of the wedge that shows the field of view
DISC_PIXELS = 11.0  # radius of a numbered disc
HALF_BAR_PIXELS = 7.0  # half the length of the bar at a blocked move
LETTER_PIXELS = 7.0  # approximate width of a letter in a label
CANDIDATE_LINE_PIXELS = 22.0  # length of the line in a candidate's viewing direction


class PlanPose(NamedTuple):
    """A pose on the plan: a turn, or a view if the views were preselected."""

    number: int
    """As numbered on the page, from 1."""
    target: str
    """HTML id of the turn or view."""
    camera: Camera
    pixel: Pixel
    spot: Pixel
    """Centre of the numbered disc."""
    wedge: str
    """Field of view as an SVG path."""
    map_only: bool
    """True if only a map was shown."""
    label: str


class Block(NamedTuple):
    """A blocked move: the turn, and the ends of a bar across the direction of travel."""

    number: int
    bar: tuple[Pixel, Pixel]
    label: str


class BoxMark(NamedTuple):
    """A named box, seen from above."""

    name: str
    category: int
    """Index of its category among the named ones."""
    points: str
    """Outline in SVG syntax."""
    spot: Pixel | None
    """Centre of the label; None if there is no room for it."""
    seen: bool
    """True if the box was ever clearly visible."""


class MapMarks(NamedTuple):
    """Everything drawn over a floor plan."""

    stops: Sequence[PlanPose]
    boxes: Sequence[BoxMark]
    blocks: Sequence[Block] = ()
    line: str = ""
    """Path in SVG syntax."""
    end: Pixel | None = None
    """Final position, if it differs from the last stop."""


def path_marks(
    state: QuestionState,
    plan: ScenePlan,
    image_size: tuple[int, int],  # width and height of its views in pixels
    diagnosis: Diagnosis | None = None,
    *,
    passive: bool = False,
) -> MapMarks:
    """Lay out the path, the boxes and the labels of a question on the plan of its scene."""
    area = _OccupiedArea(plan.plot)
    poses = list(_views(state) if passive else _turns(state))
    pixels = [plan.pixel(camera.position) for _, camera, _ in poses]
    for pixel in pixels:
        area.add(pixel, 4, 4)
    target = "view" if passive else "turn"
    stops = [
        PlanPose(
            number,
            f"{target}-{number}",
            camera,
            pixel,
            area.place_number(pixel, camera.yaw),
            _circle(pixel)
            if "around" in kinds
            else field_of_view(pixel, camera.yaw, camera.horizontal_fov(*image_size)),
            not kinds,
            describe_pose(camera),
        )
        for (number, camera, kinds), pixel in zip(poses, pixels, strict=True)
    ]
    boxes = [] if diagnosis is None else _boxes(diagnosis, plan, area, image_size)
    if passive or not state.turns:
        return MapMarks(stops, boxes)
    end = plan.pixel(state.turns[-1].camera.position)
    has_moved = math.dist(end, pixels[-1]) > 1
    blocks = [block for turn in state.turns if (block := _block(turn, plan)) is not None]
    path = [*pixels, end] if has_moved else pixels
    return MapMarks(
        stops, boxes, blocks, svg_points(path) if len(path) > 1 else "", end if has_moved else None
    )


class CandidateMark(NamedTuple):
    """Pose of a rejected candidate: its pixel, the tip of the line in its viewing direction, and its number."""

    pixel: Pixel
    tip: Pixel
    name: str


def candidate_marks(state: QuestionState, plan: ScenePlan) -> dict[str, list[CandidateMark]]:
    """Return the poses of rejected candidates by the HTML id of their turn."""
    turns: dict[str, list[CandidateMark]] = {}
    for turn in state.turns:
        for candidate in turn.evidence.candidates if turn.evidence else ():
            assert turn.evidence is not None
            camera = candidate.camera
            is_chosen = candidate.number == turn.evidence.chosen or camera == turn.camera
            if candidate.continues_dialogue and not is_chosen:
                pixel = plan.pixel(camera.position)
                tip = towards(pixel, camera.yaw, CANDIDATE_LINE_PIXELS)
                mark = CandidateMark(pixel, tip, str(candidate.number + 1))
                turns.setdefault(f"turn-{turn.number + 1}", []).append(mark)
    return turns


def describe_pose(camera: Camera) -> str:
    """Format a pose: position in metres, yaw and pitch in degrees."""
    x, y, z = camera.position
    return (
        f"x {x:.2f}, y {y:.2f}, z {z:.2f} m, yaw {_degrees_text(camera.yaw)}°,"
        f" pitch {_degrees_text(camera.pitch)}°"
    )


def _turns(state: QuestionState) -> Iterator[Pose]:
    for turn in state.turns:
        # views that are shown again were taken from other poses
        kinds = [view.kind for view in turn.views if _taken_here(view.camera, turn.camera_before)]
        yield turn.number + 1, turn.camera_before, kinds


def _taken_here(camera: object, pose: Camera) -> bool:
    return (
        isinstance(camera, Camera) and camera.position == pose.position and camera.yaw == pose.yaw
    )


def _views(state: QuestionState) -> Iterator[Pose]:
    for view in state.views:
        if isinstance(view.camera, Camera):
            yield view.number, view.camera, [view.kind]


def svg_points(pixels: Sequence[Pixel]) -> str:
    """Format pixels as the `points` attribute of an SVG line."""
    return " ".join(f"{u:.1f},{v:.1f}" for u, v in pixels)


def towards(pixel: Pixel, degrees: float, reach: float) -> Pixel:
    """Return the pixel at distance `reach` in a direction, in degrees counter-clockwise from the right."""
    angle = math.radians(degrees)
    return pixel[0] + reach * math.cos(angle), pixel[1] - reach * math.sin(angle)


def field_of_view(pixel: Pixel, yaw: float, angle: float) -> str:
    """Return the wedge of a field of view, `angle` degrees wide, as an SVG path."""
    u, v = pixel
    edge, right = (towards(pixel, yaw + side * angle / 2, WEDGE_PIXELS) for side in (1, -1))
    return (
        f"M{u:.1f} {v:.1f}L{edge[0]:.1f} {edge[1]:.1f}"
        f"A{WEDGE_PIXELS:g} {WEDGE_PIXELS:g} 0 {int(angle > 180)} 1 {right[0]:.1f} {right[1]:.1f}Z"
    )


def _circle(pixel: Pixel) -> str:
    u, v = pixel
    half = f"a{WEDGE_PIXELS:g} {WEDGE_PIXELS:g} 0 1 0"
    return f"M{u - WEDGE_PIXELS:.1f} {v:.1f}{half} {2 * WEDGE_PIXELS:g} 0{half} {-2 * WEDGE_PIXELS:g} 0Z"


def _block(turn: Turn, plan: ScenePlan) -> Block | None:
    """Return the mark of a horizontal move that was blocked by an obstacle; None if it was not blocked."""
    outcome = turn.outcome
    if outcome is None or outcome.level_obstacle is None:
        return None
    forward, leftward, _ = outcome.requested
    heading = turn.camera_before.yaw + outcome.turned + math.degrees(math.atan2(leftward, forward))
    reach = CLEARANCE_METRES / plan.camera.metres_per_pixel
    tip = towards(plan.pixel(turn.camera.position), heading, reach)
    bar = (
        towards(tip, heading + 90, HALF_BAR_PIXELS),
        towards(tip, heading - 90, HALF_BAR_PIXELS),
    )
    return Block(turn.number + 1, bar, turn.feedback)


def _boxes(
    diagnosis: Diagnosis, plan: ScenePlan, area: _OccupiedArea, image_size: tuple[int, int]
) -> list[BoxMark]:
    """Return the marks of the named boxes, with labels if there is enough space."""
    seen_boxes = first_clear_turns(diagnosis.turns, image_size)
    marks = []
    for number, box in enumerate(diagnosis.boxes):
        name, outline = name_of(box, diagnosis.boxes), box_outline(box, plan)
        middle = plan.pixel(box.centre)
        above = middle[0], min(v for _, v in outline) - 9
        below = middle[0], max(v for _, v in outline) + 9
        half = LETTER_PIXELS * len(name) / 2
        spot = next((s for s in (middle, above, below) if area.is_free(s, half, 8)), None)
        if spot is not None:
            area.add(spot, half, 8)
        category = diagnosis.named.index(box.category)
        marks.append(BoxMark(name, category, svg_points(outline), spot, number in seen_boxes))
    return marks


def box_outline(box: NamedBox, plan: ScenePlan) -> tuple[Pixel, ...]:
    """Return the outline of a box from above: the Minkowski sum of its projected edges."""
    edges = [(x * size, y * size) for (x, y, _), size in zip(box.axes, box.size, strict=True)]
    edges = [(x, y) if (y, x) > (0, 0) else (-x, -y) for x, y in edges]
    edges = [edge for edge in edges if math.hypot(*edge) > 1e-6]
    edges.sort(key=lambda edge: math.atan2(edge[1], edge[0]))
    x, y = (box.centre[axis] - sum(edge[axis] for edge in edges) / 2 for axis in (0, 1))
    outline = []
    for right, up in (*edges, *((-x, -y) for x, y in edges)):
        outline.append(plan.pixel((x, y, box.centre[2])))
        x, y = x + right, y + up
    return tuple(outline)


def _degrees_text(degrees: float) -> str:
    return f"{degrees:.0f}".replace("-0", "0") if abs(degrees) < 0.5 else f"{degrees:.0f}"


@dataclass(slots=True)
class _OccupiedArea:
    """Rectangles of the plan that are covered by marks."""

    plot: PlotArea
    rectangles: list[tuple[float, float, float, float]] = field(default_factory=list)
    """(u, v, half width, half height) in pixels."""

    def add(self, pixel: Pixel, half_width: float, half_height: float) -> None:
        self.rectangles.append((*pixel, half_width, half_height))

    def is_free(self, pixel: Pixel, half_width: float, half_height: float) -> bool:
        u, v = pixel
        is_inside = (
            self.plot.left <= u - half_width
            and u + half_width <= self.plot.right
            and self.plot.top <= v - half_height
            and v + half_height <= self.plot.bottom
        )
        if not is_inside:
            return False
        # A plain loop, because this is called for every candidate spot.
        for x, y, w, h in self.rectangles:
            if abs(u - x) < half_width + w and abs(v - y) < half_height + h:
                return False
        return True

    def place_number(self, pixel: Pixel, yaw: float) -> Pixel:
        """Reserve a free spot for a number, preferably close by in the viewing direction."""
        near_spots = product((0, 25, -25, 50, -50, 80, -80, 120, -120, 180), (20.0, 30.0, 42.0))
        circle_spots = (
            (angle, reach) for reach, angle in product((56.0, 72.0, 90.0), range(0, 360, 20))
        )
        spots = (
            towards(pixel, yaw + angle, reach) for angle, reach in chain(near_spots, circle_spots)
        )
        fallback = next(spots)
        free = (s for s in chain([fallback], spots) if self.is_free(s, DISC_PIXELS, DISC_PIXELS))
        spot = next(free, fallback)
        self.add(spot, DISC_PIXELS, DISC_PIXELS)
        return spot
