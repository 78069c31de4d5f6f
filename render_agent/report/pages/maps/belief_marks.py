"""What is drawn over a floor plan of what a model believes: its objects beside the true ones, its pose beside the true one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from render_agent.dialogue.beliefs import Belief
from render_agent.dialogue.state import QuestionState
from render_agent.report.diagnosis.model import Diagnosis, name_of
from render_agent.report.diagnosis.summary import seen_by
from render_agent.report.pages.maps.floor_plan import Plan
from render_agent.report.pages.maps.path_marks import (
    Pixel,
    box_outline,
    svg_points,
    towards,
)
from render_agent.score.beliefs.matching import fates
from render_agent.score.beliefs.scored_probe import ScoredProbe

ARROW_PIXELS = 46.0  # length of the arrow of a direction of view

EDGE_PIXELS = 10.0  # an object believed to be outside the plan is drawn this far inside its edge


class TrueMark(NamedTuple):
    """A true object: its outline, its category's number, whether it is on the map, and seen well by then."""

    name: str
    category: int
    points: str
    found: bool
    seen: bool


class BelievedMark(NamedTuple):
    """A believed object: where it is drawn, what became of it, and the middle of the true one, if any.

    outside: whether it is believed to be beyond the edge of the plan. sure: percent. metres: to the true one.
    """

    name: str
    category: int
    pixel: Pixel
    fate: str
    position: tuple[float, float]
    outside: bool = False
    sure: float | None = None
    length: float | None = None
    to: Pixel | None = None
    metres: float | None = None


class PoseMark(NamedTuple):
    """Where somebody stands and looks: two pixels; the second is the first where that is not known."""

    at: Pixel
    tip: Pixel


@dataclass(frozen=True, slots=True)
class BeliefMap:
    """One probe as a page shows it; turn: from 1. why: why it is no map, where it is none."""

    turn: int
    words: str
    why: str | None
    reply: str
    notes: tuple[str, ...]
    true: tuple[TrueMark, ...] = ()
    believed: tuple[BelievedMark, ...] = ()
    stands: PoseMark | None = None
    thinks: PoseMark | None = None


def belief_maps(
    state: QuestionState, diagnosis: Diagnosis | None, plan: Plan | None, size: tuple[int, int]
) -> list[BeliefMap]:
    """Return what is drawn of every probe of a question; size: of its pictures."""
    if diagnosis is None or diagnosis.belief is None or plan is None:
        return []
    return [_belief_map(state, diagnosis, probe, plan, size) for probe in diagnosis.belief.probes]


def _belief_map(
    state: QuestionState,
    diagnosis: Diagnosis,
    probe: ScoredProbe,
    plan: Plan,
    size: tuple[int, int],
) -> BeliefMap:
    turn = state.turns[probe.turn]
    belief = probe.probe.read
    seen = seen_by(diagnosis, size, probe.turn)
    matching = None if probe.score is None else probe.score.matching
    on_map = frozenset() if matching is None else matching.found
    categories = {name: number for number, name in enumerate(diagnosis.named)}
    true = tuple(
        TrueMark(
            name_of(box, diagnosis.boxes),
            categories.get(box.category, 0),
            svg_points(box_outline(box, plan)),
            (box.category, box.number) in on_map,
            (box.category, box.number) in seen,
        )
        for box in diagnosis.boxes
    )
    belief_map = BeliefMap(
        turn.number + 1,
        worth_words(probe),
        None,
        probe.probe.reply,
        (),
        true,
        stands=_pose(plan, turn.camera.position[:2], turn.camera.yaw),
    )
    if belief is None:
        reason = getattr(probe.probe.belief, "reason", "it was not read")
        return replace(belief_map, why=probe.probe.error or reason)
    return replace(
        belief_map,
        notes=belief.notes,
        believed=tuple(_believed(belief, probe, diagnosis, categories, plan)),
        thinks=None if belief.position is None else _pose(plan, belief.position, belief.yaw),
    )


def _believed(
    belief: Belief,
    probe: ScoredProbe,
    diagnosis: Diagnosis,
    categories: Mapping[str, int],
    plan: Plan,
) -> Iterator[BelievedMark]:
    matching = None if probe.score is None else probe.score.matching
    if matching is None:
        return
    boxes = {(box.category, box.number): box for box in diagnosis.boxes}
    for thing, fate, pair in fates(belief, matching):
        name = next((c for c in categories if thing in belief.of(c)), thing.category)
        to = metres = None
        if pair is not None:
            to, metres = plan.pixel(boxes[pair.category, pair.true].centre), pair.metres
        where = plan.pixel((*thing.position, 0.0))
        inside = _inside(plan, where)
        yield BelievedMark(
            name, categories.get(name, 0), inside, fate, thing.position, inside != where,
            thing.sure, thing.length, to, metres,
        )  # fmt: skip


def worth_words(probe: ScoredProbe) -> str:
    """Return what a belief was worth in words, its parts between commas."""
    score = probe.score
    if score is None:
        return "no belief could be read"
    parts = []
    if score.matching is not None:
        parts.append(f"{score.found} of {score.true} found")
        if score.matching.doubled:
            parts.append(f"{len(score.matching.doubled)} doubled")
        if score.matching.invented:
            parts.append(f"{len(score.matching.invented)} invented")
        if score.matching.pairs:
            apart = sum(pair.metres for pair in score.matching.pairs) / score.found
            parts.append(f"{apart:.2f} m off")
    if score.counts is not None:
        off = sum(map(abs, score.counts.values()))
        parts.append("counts right" if not off else f"counts {off} off")
    if score.metres is not None:
        parts.append(f"itself {score.metres:.2f} m off")
    if probe.answer is not None:
        parts.append(f"answers {probe.answer}")
    return ", ".join(parts)


def _pose(plan: Plan, position: tuple[float, float], yaw: float | None) -> PoseMark:
    at = _inside(plan, plan.pixel((*position, 0.0)))
    return PoseMark(at, at if yaw is None else towards(at, yaw, ARROW_PIXELS))


def _inside(plan: Plan, pixel: Pixel) -> Pixel:
    """Return a pixel moved to the edge of the plan where it lies beyond it."""
    width, height = plan.size
    u, v = (
        max(EDGE_PIXELS, min(limit - EDGE_PIXELS, value))
        for value, limit in zip(pixel, (width, height), strict=True)
    )
    return u, v
