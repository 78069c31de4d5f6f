"""What is drawn over a floor plan: where the camera stood and looked, and what was asked about."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, product
from typing import NamedTuple

from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.turn import Turn
from render_agent.render.map_view.overlay import Plot
from render_agent.report.diagnosis.model import Diagnosis, NamedBox, name_of
from render_agent.report.pages.maps.floor_plan import Plan
from render_agent.scans.camera import Camera
from render_agent.scans.free_space.standing import CLEARANCE_METRES

Pixel = tuple[float, float]

Pose = tuple[int, Camera, Sequence[str]]
"""A number on the page, a camera, and the kinds of view that it took."""

WEDGE_PIXELS = 44.0  # length of the wedge that shows where a camera looked
DISC_PIXELS = 11.0  # radius of the disc that bears a number
HALF_BAR_PIXELS = 7.0  # half the length of the bar where a move was stopped
LETTER_PIXELS = 7.0  # width of a letter of a label
CANDIDATE_LINE_PIXELS = 22.0  # length of the line that says which way a candidate looks


class Stop(NamedTuple):
    """A pose on the plan: a turn of a free dialogue, a view of one whose views were chosen for it.

    number: as the page numbers it, from 1. target: the id on the page of what belongs to it. spot: the
    pixel of the disc with its number. wedge: the outline of where it looked, as an SVG path.
    map_only: whether it was shown a map alone.
    """

    number: int
    target: str
    camera: Camera
    pixel: Pixel
    spot: Pixel
    wedge: str
    map_only: bool
    words: str


class Block(NamedTuple):
    """Where a move was stopped: the bar across its way (two pixels), and the stop that it began at."""

    number: int
    bar: tuple[Pixel, Pixel]
    words: str


class BoxMark(NamedTuple):
    """A named box from above: its outline as SVG writes it, and where its label stands.

    category: the number of its category among those that the question names. spot: where the label is
    centred, None if there is no room for it. seen: whether it was seen well at any time.
    """

    name: str
    category: int
    points: str
    spot: Pixel | None
    seen: bool


class MapMarks(NamedTuple):
    """All that is drawn over a plan; line: the path as SVG writes it; end: where the camera stood at last, if that is no stop."""

    stops: Sequence[Stop]
    boxes: Sequence[BoxMark]
    blocks: Sequence[Block] = ()
    line: str = ""
    end: Pixel | None = None


def marks(
    state: QuestionState,
    plan: Plan,
    picture: tuple[int, int],
    diagnosis: Diagnosis | None = None,
    *,
    passive: bool = False,
    well_seen: frozenset[int] = frozenset(),
) -> MapMarks:
    """Return what is drawn over the plan of a question's scene.

    picture: width and height of its views in pixels. passive: whether its views were chosen for it.
    well_seen: the numbers of the boxes that were seen well.
    """
    taken = _Taken(plan.plot)
    poses = list(_views(state) if passive else _turns(state))
    pixels = [plan.pixel(camera.position) for _, camera, _ in poses]
    for pixel in pixels:
        taken.add(pixel, 4, 4)
    target = "view" if passive else "turn"
    stops = [
        Stop(
            number,
            f"{target}-{number}",
            camera,
            pixel,
            taken.place_number(pixel, camera.yaw),
            _circle(pixel)
            if "around" in kinds
            else _wedge(pixel, camera.yaw, camera.horizontal_fov(*picture)),
            not kinds,
            where(camera),
        )
        for (number, camera, kinds), pixel in zip(poses, pixels, strict=True)
    ]
    boxes = [] if diagnosis is None else _boxes(diagnosis, plan, taken, well_seen)
    if passive or not state.turns:
        return MapMarks(stops, boxes)
    end = plan.pixel(state.turns[-1].camera.position)
    moved = math.dist(end, pixels[-1]) > 1
    blocks = [block for turn in state.turns if (block := _block(turn, plan)) is not None]
    path = [*pixels, end] if moved else pixels
    return MapMarks(
        stops, boxes, blocks, svg_points(path) if len(path) > 1 else "", end if moved else None
    )


class CandidateMark(NamedTuple):
    """A pose that was not taken: its pixel, the end of the line where it looks, the candidate's number."""

    pixel: Pixel
    tip: Pixel
    name: str


def candidate_marks(state: QuestionState, plan: Plan) -> dict[str, list[CandidateMark]]:
    """Return by the id of a turn on the page where the candidates that were not taken would have led."""
    turns: dict[str, list[CandidateMark]] = {}
    for turn in state.turns:
        for candidate in turn.evidence.candidates if turn.evidence else ():
            assert turn.evidence is not None
            camera = candidate.camera
            taken = candidate.number == turn.evidence.chosen or camera == turn.camera
            if candidate.goes_on and not taken:
                pixel = plan.pixel(camera.position)
                tip = towards(pixel, camera.yaw, CANDIDATE_LINE_PIXELS)
                mark = CandidateMark(pixel, tip, str(candidate.number + 1))
                turns.setdefault(f"turn-{turn.number + 1}", []).append(mark)
    return turns


def where(camera: Camera) -> str:
    """Return a pose in words: position in metres, yaw and pitch in degrees."""
    x, y, z = camera.position
    return (
        f"x {x:.2f}, y {y:.2f}, z {z:.2f} m, yaw {_degrees_text(camera.yaw)}°,"
        f" pitch {_degrees_text(camera.pitch)}°"
    )


def _turns(state: QuestionState) -> Iterator[Pose]:
    for turn in state.turns:
        # A view that is shown again was taken from elsewhere.
        kinds = [view.kind for view in turn.views if _taken_here(view.camera, turn.stood)]
        yield turn.number + 1, turn.stood, kinds


def _taken_here(camera: object, stood: Camera) -> bool:
    return (
        isinstance(camera, Camera) and camera.position == stood.position and camera.yaw == stood.yaw
    )


def _views(state: QuestionState) -> Iterator[Pose]:
    for view in state.views:
        if isinstance(view.camera, Camera):
            yield view.number, view.camera, [view.kind]


def svg_points(pixels: Sequence[Pixel]) -> str:
    """Return pixels as SVG writes the points of a line."""
    return " ".join(f"{u:.1f},{v:.1f}" for u, v in pixels)


def towards(pixel: Pixel, degrees: float, reach: float) -> Pixel:
    """Return the pixel so far from another in a direction, degrees counter-clockwise from the right."""
    angle = math.radians(degrees)
    return pixel[0] + reach * math.cos(angle), pixel[1] - reach * math.sin(angle)


def _wedge(pixel: Pixel, yaw: float, angle: float) -> str:
    u, v = pixel
    left, right = (towards(pixel, yaw + side * angle / 2, WEDGE_PIXELS) for side in (1, -1))
    return (
        f"M{u:.1f} {v:.1f}L{left[0]:.1f} {left[1]:.1f}"
        f"A{WEDGE_PIXELS:g} {WEDGE_PIXELS:g} 0 {int(angle > 180)} 1 {right[0]:.1f} {right[1]:.1f}Z"
    )


def _circle(pixel: Pixel) -> str:
    u, v = pixel
    half = f"a{WEDGE_PIXELS:g} {WEDGE_PIXELS:g} 0 1 0"
    return f"M{u - WEDGE_PIXELS:.1f} {v:.1f}{half} {2 * WEDGE_PIXELS:g} 0{half} {-2 * WEDGE_PIXELS:g} 0Z"


def _block(turn: Turn, plan: Plan) -> Block | None:
    """Return the mark of a level move that an obstacle stopped, None if nothing did."""
    outcome = turn.outcome
    if outcome is None or outcome.level_obstacle is None:
        return None
    forward, left, _ = outcome.requested
    way = turn.stood.yaw + outcome.turned + math.degrees(math.atan2(left, forward))
    reach = CLEARANCE_METRES / plan.camera.metres_per_pixel
    ahead = towards(plan.pixel(turn.camera.position), way, reach)
    bar = (towards(ahead, way + 90, HALF_BAR_PIXELS), towards(ahead, way - 90, HALF_BAR_PIXELS))
    return Block(turn.number + 1, bar, turn.feedback)


def _boxes(
    diagnosis: Diagnosis, plan: Plan, taken: _Taken, well_seen: frozenset[int]
) -> list[BoxMark]:
    marks = []
    for number, box in enumerate(diagnosis.boxes):
        name, outline = name_of(box, diagnosis.boxes), box_outline(box, plan)
        middle = plan.pixel(box.centre)
        above = middle[0], min(v for _, v in outline) - 9
        below = middle[0], max(v for _, v in outline) + 9
        half = LETTER_PIXELS * len(name) / 2
        spot = next((s for s in (middle, above, below) if taken.free(s, half, 8)), None)
        if spot is not None:
            taken.add(spot, half, 8)
        category = diagnosis.named.index(box.category)
        marks.append(BoxMark(name, category, svg_points(outline), spot, number in well_seen))
    return marks


def box_outline(box: NamedBox, plan: Plan) -> tuple[Pixel, ...]:
    """Return the outline of a box from above: that of the sum of its three edges, in order of direction."""
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
class _Taken:
    """Rectangles of the plan that marks cover already, as (u, v, half width, half height)."""

    plot: Plot
    rectangles: list[tuple[float, float, float, float]] = field(default_factory=list)

    def add(self, pixel: Pixel, wide: float, high: float) -> None:
        self.rectangles.append((*pixel, wide, high))

    def free(self, pixel: Pixel, wide: float, high: float) -> bool:
        u, v = pixel
        inside = (
            self.plot.left <= u - wide
            and u + wide <= self.plot.right
            and self.plot.top <= v - high
            and v + high <= self.plot.bottom
        )
        if not inside:
            return False
        for x, y, w, h in self.rectangles:  # no generator: it is asked for every spot that is tried
            if abs(u - x) < wide + w and abs(v - y) < high + h:
                return False
        return True

    def place_number(self, pixel: Pixel, yaw: float) -> Pixel:
        """Take a free spot for a number: where the camera looks, near first, else all around."""
        ahead = product((0, 25, -25, 50, -50, 80, -80, 120, -120, 180), (20.0, 30.0, 42.0))
        around = ((angle, reach) for reach, angle in product((56.0, 72.0, 90.0), range(0, 360, 20)))
        spots = (towards(pixel, yaw + angle, reach) for angle, reach in chain(ahead, around))
        first = next(spots)
        free = (s for s in chain([first], spots) if self.free(s, DISC_PIXELS, DISC_PIXELS))
        spot = next(free, first)
        self.add(spot, DISC_PIXELS, DISC_PIXELS)
        return spot
