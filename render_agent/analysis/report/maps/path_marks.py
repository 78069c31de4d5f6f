"""What is drawn over a floor plan: where the camera stood and looked, and what was asked about."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from render_agent.analysis.diagnosis.model import Diagnosis, NamedBox
from render_agent.analysis.report.maps.floor_plan import Plan
from render_agent.dialogue.moves import Limits
from render_agent.dialogue.reply import Action
from render_agent.dialogue.state import QuestionState, Turn
from render_agent.geometry.camera import Camera
from render_agent.render.map_view.overlay import Plot

Pixel = tuple[float, float]

REACH = 44.0
"""Pixels of a plan that a wedge is long."""

RADIUS = 11.0
"""Pixels of the disc that bears a number."""

APART = 0.05
"""Metres: a move that ends so much short of what was asked was stopped."""

BAR = 7.0
"""Pixels of half the bar that marks where a move was stopped."""

LETTER = 7.0
"""Pixels that a letter of a label is wide."""


@dataclass(frozen=True, slots=True)
class Stop:
    """A pose on the plan: a turn of a free dialogue, a view of one whose views were chosen for it.

    number: as the page numbers it, from 1. target: the id on the page of what belongs to it. place:
    its pixel. spot: the pixel of the disc with its number. wedge: the outline of where it looked, as
    an SVG path; round: whether it looked everywhere; map_only: whether it was shown a map alone.
    """

    number: int
    target: str
    camera: Camera
    place: Pixel
    spot: Pixel
    wedge: str
    round: bool
    map_only: bool
    words: str


@dataclass(frozen=True, slots=True)
class Block:
    """Where a move was stopped: the bar across its way (two pixels), and the stop that it began at."""

    number: int
    bar: tuple[Pixel, Pixel]
    words: str


@dataclass(frozen=True, slots=True)
class BoxMark:
    """A named box from above: its outline, and where its label stands.

    category: the number of its category among those that the question names. place: its middle.
    spot: where the label is centred, None where there is no room for it. seen: whether it was seen
    well at any time.
    """

    name: str
    category: int
    outline: tuple[Pixel, ...]
    place: Pixel
    spot: Pixel | None
    seen: bool

    @property
    def points(self) -> str:
        """The outline as SVG writes it."""
        return " ".join(f"{u:.1f},{v:.1f}" for u, v in self.outline)


@dataclass(frozen=True, slots=True)
class MapMarks:
    """All that is drawn over a plan; end: where the camera stood at last, where it is no stop."""

    stops: tuple[Stop, ...]
    boxes: tuple[BoxMark, ...]
    blocks: tuple[Block, ...] = ()
    path: tuple[Pixel, ...] = ()
    end: Pixel | None = None

    @property
    def line(self) -> str:
        """The path as SVG writes it."""
        return " ".join(f"{u:.1f},{v:.1f}" for u, v in self.path)


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
    places = [_pixel(plan, pose.camera) for pose in poses]
    for place in places:
        taken.add(place, 4, 4)
    stops = tuple(
        _stop(pose, place, plan, picture, taken) for pose, place in zip(poses, places, strict=True)
    )
    boxes = () if diagnosis is None else diagnosis.boxes
    named = () if diagnosis is None else diagnosis.named
    drawn = tuple(
        _box(box, boxes, named, plan, taken, seen=number in well_seen)
        for number, box in enumerate(boxes)
    )
    if passive or not state.turns:
        return MapMarks(stops, drawn)
    end = _pixel(plan, state.turns[-1].camera)
    moved = math.dist(end, places[-1]) > 1
    blocks = tuple(block for turn in state.turns if (block := _block(turn, plan)) is not None)
    return MapMarks(
        stops, drawn, blocks, (*places, *([end] if moved else [])), end if moved else None
    )


def name_of(box: NamedBox, boxes: Sequence[NamedBox]) -> str:
    """Return a box's category, with its number from 1 where there are several of them."""
    several = sum(other.category == box.category for other in boxes) > 1
    return f"{box.category} {box.number + 1}" if several else box.category


def where(camera: Camera) -> str:
    """Return a pose in words: position in metres, yaw and pitch in degrees."""
    x, y, z = camera.position
    return (
        f"x {x:.2f}, y {y:.2f}, z {z:.2f} m, yaw {_whole(camera.yaw)}°,"
        f" pitch {_whole(camera.pitch)}°"
    )


@dataclass(frozen=True, slots=True)
class _Pose:
    number: int
    target: str
    camera: Camera
    kinds: tuple[str, ...]


def _turns(state: QuestionState) -> Iterator[_Pose]:
    for turn in state.turns:
        # A view that is shown again was taken from elsewhere.
        kinds = [view.kind for view in turn.views if _taken_here(view.camera, turn.stood)]
        yield _Pose(turn.number + 1, f"turn-{turn.number + 1}", turn.stood, tuple(kinds))


def _taken_here(camera: object, stood: Camera) -> bool:
    return (
        isinstance(camera, Camera) and camera.position == stood.position and camera.yaw == stood.yaw
    )


def _views(state: QuestionState) -> Iterator[_Pose]:
    for view in state.views:
        if isinstance(view.camera, Camera):
            yield _Pose(view.number, f"view-{view.number}", view.camera, (view.kind,))


def _stop(pose: _Pose, place: Pixel, plan: Plan, picture: tuple[int, int], taken: _Taken) -> Stop:
    camera = pose.camera
    everywhere = "around" in pose.kinds
    angle = 360.0 if everywhere else camera.horizontal_fov(*picture)
    spot = taken.beside(place, camera.yaw)
    return Stop(
        number=pose.number,
        target=pose.target,
        camera=camera,
        place=place,
        spot=spot,
        wedge=_circle(place) if everywhere else _wedge(place, camera.yaw, angle),
        round=everywhere,
        map_only=not pose.kinds,
        words=where(camera),
    )


def _pixel(plan: Plan, camera: Camera) -> Pixel:
    u, v = plan.pixels(np.array([camera.position]))[0]
    return float(u), float(v)


def _towards(place: Pixel, degrees: float, reach: float) -> Pixel:
    angle = math.radians(degrees)
    return place[0] + reach * math.cos(angle), place[1] - reach * math.sin(angle)


def _wedge(place: Pixel, yaw: float, angle: float) -> str:
    (u, v), left, right = (
        place,
        _towards(place, yaw + angle / 2, REACH),
        _towards(place, yaw - angle / 2, REACH),
    )
    return (
        f"M{u:.1f} {v:.1f}L{left[0]:.1f} {left[1]:.1f}"
        f"A{REACH:g} {REACH:g} 0 {int(angle > 180)} 1 {right[0]:.1f} {right[1]:.1f}Z"
    )


def _circle(place: Pixel) -> str:
    u, v = place
    half = f"a{REACH:g} {REACH:g} 0 1 0"
    return f"M{u - REACH:.1f} {v:.1f}{half} {2 * REACH:g} 0{half} {-2 * REACH:g} 0Z"


def _block(turn: Turn, plan: Plan) -> Block | None:
    """Return the mark of a level move that was stopped short, None where there was none."""
    if not isinstance(turn.action, Action) or (turn.action.done and turn.action.answer is not None):
        return None
    most = Limits().metres
    forward, left = (
        max(-most, min(most, metres)) for metres in (turn.action.forward, turn.action.left)
    )
    heading = (
        turn.stood.looking_at(turn.action.look_at)
        if turn.action.look_at is not None
        else turn.stood.turned(max(-180.0, min(180.0, turn.action.rotation)))
    )
    asked = heading.offset(forward, left, 0.0)
    gone = np.subtract(turn.camera.position, turn.stood.position)
    if math.hypot(*asked[:2]) - math.hypot(*gone[:2]) < APART:
        return None
    way = math.degrees(math.atan2(asked[1], asked[0]))
    ahead = _towards(
        _pixel(plan, turn.camera), way, Limits().clearance / plan.camera.metres_per_pixel
    )
    bar = (_towards(ahead, way + 90, BAR), _towards(ahead, way - 90, BAR))
    return Block(turn.number + 1, bar, turn.feedback)


def _box(
    box: NamedBox,
    boxes: Sequence[NamedBox],
    named: Sequence[str],
    plan: Plan,
    taken: _Taken,
    *,
    seen: bool,
) -> BoxMark:
    name = name_of(box, boxes)
    outline = _outline(box, plan)
    u, v = plan.pixels(np.array([box.centre]))[0]
    above = min(v for _, v in outline) - 9
    below = max(v for _, v in outline) + 9
    half = LETTER * len(name) / 2
    spots = [(float(u), float(v)), (float(u), above), (float(u), below)]
    spot = next((spot for spot in spots if taken.free(spot, half, 8)), None)
    if spot is not None:
        taken.add(spot, half, 8)
    category = named.index(box.category) if box.category in named else 0
    return BoxMark(name, category, outline, (float(u), float(v)), spot, seen)


def _outline(box: NamedBox, plan: Plan) -> tuple[Pixel, ...]:
    """Return the outline of a box from above: that of the sum of its three edges, in order of direction."""
    edges = [np.array(axis[:2]) * size for axis, size in zip(box.axes, box.size, strict=True)]
    edges = [edge if (edge[1], edge[0]) > (0, 0) else -edge for edge in edges]
    edges = sorted(
        (edge for edge in edges if np.hypot(*edge) > 1e-6),
        key=lambda edge: math.atan2(edge[1], edge[0]),
    )
    corner = np.array(box.centre[:2]) - np.sum(edges, axis=0) / 2
    corners = []
    for step in (*edges, *(-edge for edge in edges)):
        corners.append((*corner, box.centre[2]))
        corner = corner + step
    pixels = plan.pixels(np.array(corners))
    return tuple((float(u), float(v)) for u, v in pixels)


def _whole(degrees: float) -> str:
    return f"{degrees:.0f}".replace("-0", "0") if abs(degrees) < 0.5 else f"{degrees:.0f}"


@dataclass(slots=True)
class _Taken:
    """Where on the plan something stands already; rectangles as (u, v, half width, half height)."""

    plot: Plot
    places: list[tuple[float, float, float, float]] = field(default_factory=list)

    def add(self, place: Pixel, wide: float, high: float) -> None:
        self.places.append((*place, wide, high))

    def free(self, place: Pixel, wide: float, high: float) -> bool:
        u, v = place
        inside = (
            self.plot.left <= u - wide
            and u + wide <= self.plot.right
            and self.plot.top <= v - high
            and v + high <= self.plot.bottom
        )
        return inside and not any(
            abs(u - x) < wide + w and abs(v - y) < high + h for x, y, w, h in self.places
        )

    def beside(self, place: Pixel, yaw: float) -> Pixel:
        """Return a free spot for a number: where the camera looks, near first, else all around."""
        ways = [
            _towards(place, yaw + aside, reach)
            for aside in (0, 25, -25, 50, -50, 80, -80, 120, -120, 180)
            for reach in (20.0, 30.0, 42.0)
        ]
        ways += [
            _towards(place, yaw + aside, reach)
            for reach in (56, 72, 90)
            for aside in range(0, 360, 20)
        ]
        spot = next((spot for spot in ways if self.free(spot, RADIUS, RADIUS)), ways[0])
        self.add(spot, RADIUS, RADIUS)
        return spot
