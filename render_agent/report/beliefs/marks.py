"""Overlay of beliefs on a floor plan: believed and actual objects, believed and actual pose."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from render_agent.dialogue.beliefs import Belief
from render_agent.dialogue.state import QuestionState
from render_agent.parts.beliefs.matching import match_results
from render_agent.parts.beliefs.scored_probe import ScoredProbe
from render_agent.report.beliefs.agreement import seen_by
from render_agent.report.beliefs.diagnosis import belief_of
from render_agent.report.beliefs.text import summarize_score
from render_agent.report.diagnosis.model import Diagnosis, name_of
from render_agent.report.pages.maps.floor_plan import ScenePlan
from render_agent.report.pages.maps.path_marks import (
    Pixel,
    box_outline,
    svg_points,
    towards,
)

ARROW_PIXELS = 46.0  # length of an arrow in the viewing direction
EDGE_PIXELS = 10.0  # objects outside the plan are drawn at this distance from its edge


class TrueMark(NamedTuple):
    """An actual object."""

    name: str
    category: int
    """Index of its category among the named ones."""
    points: str
    """Outline in SVG syntax."""
    is_on_map: bool
    """True if the object is on the map."""
    is_seen: bool
    """True if the object has been clearly visible up to this turn."""


class BelievedMark(NamedTuple):
    """A believed object."""

    name: str
    category: int
    """Index of its category among the named ones."""
    pixel: Pixel
    outcome: str
    """`found`, `doubled` or `invented`."""
    position: tuple[float, float]
    """Metres."""
    outside: bool = False
    """True if its position is outside the plan."""
    sure: float | None = None
    """Confidence in percent."""
    length: float | None = None
    to: Pixel | None = None
    """Centre of the matched actual object."""
    metres: float | None = None
    """Distance to the matched actual object."""


class PoseMark(NamedTuple):
    """A pose: the position and the tip of the arrow in the viewing direction, equal if the direction is unknown."""

    at: Pixel
    tip: Pixel


@dataclass(frozen=True, slots=True)
class BeliefMap:
    """The map of one probe."""

    turn: int
    """From 1."""
    summary: str
    """Summary of the score."""
    fault: str | None
    """Reason why the belief could not be read; None if it was read."""
    reply: str
    notes: tuple[str, ...]
    true: tuple[TrueMark, ...] = ()
    believed: tuple[BelievedMark, ...] = ()
    actual_pose: PoseMark | None = None
    """Actual pose of the camera."""
    believed_pose: PoseMark | None = None
    """Believed pose of the camera."""


def belief_maps(
    state: QuestionState,
    diagnosis: Diagnosis | None,
    plan: ScenePlan | None,
    size: tuple[int, int],  # width and height of its images in pixels
) -> list[BeliefMap]:
    """Return the belief maps of a question; empty if it has none."""
    belief = belief_of(diagnosis)
    if diagnosis is None or belief is None or plan is None:
        return []
    return [_belief_map(state, diagnosis, probe, plan, size) for probe in belief.probes]


def _belief_map(
    state: QuestionState,
    diagnosis: Diagnosis,
    probe: ScoredProbe,
    plan: ScenePlan,
    size: tuple[int, int],
) -> BeliefMap:
    turn = state.turns[probe.turn]
    belief = probe.probe.parsed_belief
    seen_boxes = seen_by(diagnosis, size, probe.turn)
    matching = None if probe.score is None else probe.score.matching
    on_map = frozenset() if matching is None else matching.found
    categories = {name: number for number, name in enumerate(diagnosis.named)}
    true = tuple(
        TrueMark(
            name_of(box, diagnosis.boxes),
            categories.get(box.category, 0),
            svg_points(box_outline(box, plan)),
            (box.category, box.number) in on_map,
            (box.category, box.number) in seen_boxes,
        )
        for box in diagnosis.boxes
    )
    belief_map = BeliefMap(
        turn.number + 1,
        summarize_score(probe),
        None,
        probe.probe.reply,
        (),
        true,
        actual_pose=_pose(plan, turn.camera.position[:2], turn.camera.yaw),
    )
    if belief is None:
        reason = getattr(probe.probe.belief, "reason", "not parsed")
        return replace(belief_map, fault=probe.probe.error or reason)
    return replace(
        belief_map,
        notes=belief.notes,
        believed=tuple(_believed_marks(belief, probe, diagnosis, categories, plan)),
        believed_pose=None if belief.position is None else _pose(plan, belief.position, belief.yaw),
    )


def _believed_marks(
    belief: Belief,
    probe: ScoredProbe,
    diagnosis: Diagnosis,
    categories: Mapping[str, int],
    plan: ScenePlan,
) -> Iterator[BelievedMark]:
    matching = None if probe.score is None else probe.score.matching
    if matching is None:
        return
    boxes = {(box.category, box.number): box for box in diagnosis.boxes}
    for believed, outcome, pair in match_results(belief, matching):
        name = next((c for c in categories if believed in belief.of(c)), believed.category)
        to = metres = None
        if pair is not None:
            to, metres = plan.pixel(boxes[pair.category, pair.true].centre), pair.metres
        pixel = plan.pixel((*believed.position, 0.0))
        inside = _inside(plan, pixel)
        yield BelievedMark(
            name, categories.get(name, 0), inside, outcome, believed.position, inside != pixel,
            believed.sure, believed.length, to, metres,
        )  # fmt: skip


def _pose(plan: ScenePlan, position: tuple[float, float], yaw: float | None) -> PoseMark:
    at = _inside(plan, plan.pixel((*position, 0.0)))
    return PoseMark(at, at if yaw is None else towards(at, yaw, ARROW_PIXELS))


def _inside(plan: ScenePlan, pixel: Pixel) -> Pixel:
    """Clamp a pixel to the plan."""
    width, height = plan.size
    u, v = (
        max(EDGE_PIXELS, min(limit - EDGE_PIXELS, value))
        for value, limit in zip(pixel, (width, height), strict=True)
    )
    return u, v
