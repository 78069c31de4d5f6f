"""The turns of a dialogue as a page shows them: views, reply, action, what was seen."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from render_agent.analysis.diagnosis.judge import seen_well_in
from render_agent.analysis.diagnosis.model import Diagnosis, TurnDiagnosis
from render_agent.analysis.report.maps.path_marks import name_of, where
from render_agent.analysis.report.question.action_text import action_words
from render_agent.analysis.report.question.choice import ChoicePart, choice_part
from render_agent.dialogue.chat import thinking_and_rest
from render_agent.dialogue.reply import Malformed
from render_agent.dialogue.state import QuestionState, Turn, View
from render_agent.geometry.camera import MapCamera
from render_agent.render.visibility.object_visibility import Sighting
from render_agent.text.safe_parse import parse_json

KINDS = {"ego": "the view ahead", "top": "the map", "around": "four directions"}
"""The kinds of view, in words."""

Size = tuple[int, int]


@dataclass(frozen=True, slots=True)
class ViewPart:
    """A view: its number and kind, its picture relative to the run folder, where it was taken.

    target: its id on the page; a view that is shown again has none. size: pixels.
    """

    number: int
    kind: str
    file: str
    words: str
    target: str | None
    size: Size

    @property
    def alt(self) -> str:
        """The picture in words."""
        return f"View {self.number}: {KINDS.get(self.kind, self.kind)}, {self.words}"


def percent(share: float | None) -> str:
    """Return a share, in percent, as a page has it."""
    if share is None:
        return "–"
    return "<1" if 0 < share < 1 else f"{share:.0f}"


@dataclass(frozen=True, slots=True)
class SightPart:
    """How one named box was seen in a view; shares in percent, area in pixels, distance in metres."""

    name: str
    view: int
    share: float
    area: float
    distance: float
    well: bool

    @property
    def words(self) -> str:
        """The share in words."""
        return percent(self.share)


@dataclass(frozen=True, slots=True)
class ReplyPart:
    """A reply: its thinking, the rest of it word for word, and its JSON object set out in lines."""

    thinking: tuple[str, ...]
    rest: str
    pretty: str | None


@dataclass(frozen=True, slots=True)
class TurnPart:
    """A turn as a page shows it; number: from 1, as the model reads it.

    sights: what was seen of what was named; unseen: the named boxes in none of its pictures. coverage:
    percent of the room's surface seen up to here. remarks: what else is to be said of it. choice: how it
    was decided, None where it had one reply.
    """

    number: int
    turn: Turn
    views: list[ViewPart]
    sights: tuple[SightPart, ...]
    unseen: tuple[str, ...]
    said: ReplyPart
    asked: list[str]
    malformed: bool
    coverage: float | None
    remarks: list[str]
    diagnosed: bool
    choice: ChoicePart | None = None

    @property
    def covered(self) -> str:
        """The coverage in words."""
        return percent(self.coverage)


@dataclass(frozen=True, slots=True)
class Cell:
    """A share in percent, and whether it counts as seen well; None where nothing was measured."""

    share: float | None
    well: bool = False

    @property
    def words(self) -> str:
        """The share in words."""
        return percent(self.share)


@dataclass(frozen=True, slots=True)
class SeenRow:
    """A row of the table of what was seen: a name, the number of its category, a cell a column."""

    name: str
    category: int | None
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Seeing:
    """What was seen when: columns are turns, or views where they were all shown at once."""

    column: str
    numbers: tuple[int, ...]
    rows: tuple[SeenRow, ...]


def turn_parts(state: QuestionState, size: Size, diagnosis: Diagnosis | None) -> list[TurnPart]:
    """Return the turns of a question; size: of its views in pixels."""
    diagnosed = {} if diagnosis is None else {turn.turn: turn for turn in diagnosis.turns}
    shown: set[int] = set()
    parts = []
    before: Turn | None = None
    for turn in state.turns:
        own = diagnosed.get(turn.number, TurnDiagnosis(turn.number))
        sights, unseen = _sights(own.sightings, diagnosis, size)
        parts.append(
            TurnPart(
                number=turn.number + 1,
                turn=turn,
                views=[
                    _view_part(view, size, before, again=view.number in shown)
                    for view in turn.views
                ],
                sights=sights,
                unseen=unseen,
                said=reply_part(turn.reply),
                asked=action_words(turn.action),
                malformed=isinstance(turn.action, Malformed),
                coverage=None if own.coverage is None else 100 * own.coverage,
                remarks=_remarks(turn, own),
                diagnosed=bool(own.sightings),
                choice=choice_part(turn, size),
            )
        )
        shown |= {view.number for view in turn.views}
        before = turn
    return parts


def _remarks(turn: Turn, diagnosed: TurnDiagnosis) -> list[str]:
    remarks = [f"engine: {event}" for event in turn.events]
    if turn.finish == "length":
        remarks.append("cut off by the token limit")
    if diagnosed.returned:
        remarks.append("went back to where it had been")
    if diagnosed.blocked:
        remarks.append("its move was stopped or limited")
    return remarks


def well_seen(diagnosis: Diagnosis | None, size: Size) -> frozenset[int]:
    """Return the numbers of the boxes that were seen well in any view."""
    return frozenset(seen_well_in(diagnosis.turns, size) if diagnosis is not None else ())


def seeing(
    state: QuestionState, diagnosis: Diagnosis | None, size: Size, *, passive: bool
) -> Seeing | None:
    """Return what was seen when, None where nothing was measured."""
    if diagnosis is None or not diagnosis.turns:
        return None
    coverage = [turn.coverage for turn in diagnosis.turns]
    sightings = [s for turn in diagnosis.turns for s in turn.sightings]
    if not sightings and all(share is None for share in coverage):
        return None
    if passive:
        numbers = tuple(sorted({s.view for s in sightings}))
        groups = [[s for s in sightings if s.view == number] for number in numbers]
        first: list[SeenRow] = []
    else:
        numbers = tuple(turn.turn + 1 for turn in diagnosis.turns)
        groups = [list(turn.sightings) for turn in diagnosis.turns]
        cells = tuple(Cell(None if share is None else 100 * share) for share in coverage)
        first = [SeenRow("room so far", None, cells)]
    rows = [
        SeenRow(name, number, tuple(_cell(group, name, diagnosis, size) for group in groups))
        for number, name in enumerate(diagnosis.named)
        if any(box.category == name for box in diagnosis.boxes)
    ]
    if not numbers or not (first or rows):
        return None
    return Seeing("view" if passive else "turn", numbers, (*first, *rows))


def _cell(group: Sequence[Sighting], name: str, diagnosis: Diagnosis, size: Size) -> Cell:
    own = [s for s in group if diagnosis.boxes[s.box].category == name]
    if not own:
        return Cell(None)
    return Cell(100 * max(s.share for s in own), any(s.well(size) for s in own))


def reply_part(reply: str) -> ReplyPart:
    """Return a reply taken apart."""
    blocks, rest = thinking_and_rest(reply)
    rest = rest.strip("\n")
    return ReplyPart(tuple(filter(None, map(str.strip, blocks))), rest, _pretty(rest))


def _pretty(text: str) -> str | None:
    """Return a reply's JSON object set out in lines, None where it is none or stands so already."""
    start, end = text.find("{"), text.rfind("}")
    try:
        answer = parse_json(text[start : end + 1], strict=False)
        if not isinstance(answer, Mapping):
            return None
        pretty = json.dumps(answer, indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):  # what is read may be too deep to be set out in lines
        return None
    return None if pretty == text.strip() else pretty


def _view_part(view: View, size: Size, before: Turn | None, *, again: bool) -> ViewPart:
    """Return a view; before: the turn before, which may have tried it as a candidate that was not taken."""
    if isinstance(view.camera, MapCamera):
        words = f"{1 / view.camera.metres_per_pixel:.0f} pixels a metre"
    else:
        words = where(view.camera)
    if before is not None and (evidence := before.evidence) is not None:
        led = [c.number for c in evidence.candidates if c.view and c.view.file == view.file]
        if led and evidence.chosen not in led:
            words += f", where candidate {led[0] + 1} would have led"
    target = None if again else f"view-{view.number}"
    return ViewPart(view.number, view.kind, view.file, words, target, size)


def _sights(
    sightings: Sequence[Sighting], diagnosis: Diagnosis | None, size: Size
) -> tuple[tuple[SightPart, ...], tuple[str, ...]]:
    """Return what was seen, the most first, and the names of the boxes that were not."""
    if diagnosis is None or not sightings:
        return (), ()
    visible = sorted((s for s in sightings if s.area > 0), key=lambda s: (-s.share, s.box, s.view))
    parts = tuple(
        SightPart(
            name=name_of(diagnosis.boxes[s.box], diagnosis.boxes),
            view=s.view,
            share=100 * s.share,
            area=s.area,
            distance=s.distance,
            well=s.well(size),
        )
        for s in visible
    )
    boxes_seen = {s.box for s in visible}
    unseen = sorted({s.box for s in sightings} - boxes_seen)
    return parts, tuple(name_of(diagnosis.boxes[box], diagnosis.boxes) for box in unseen)
