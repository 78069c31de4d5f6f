"""The diagnosis of one question: the cause of a right or wrong answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from render_agent.dialogue.beliefs import Belief, BelievedObject
from render_agent.dialogue.state import QuestionState, Status
from render_agent.report.diagnosis.model import BeliefDiagnosis, Cause, Diagnosis, TurnDiagnosis
from render_agent.report.diagnosis.sufficiency import first_shown, was_shown
from render_agent.report.diagnosis.visibility_pass import Visibility
from render_agent.scans.boxes import OrientedBox
from render_agent.score.beliefs.own_answer import SOLVED_TYPES, own_answer
from render_agent.score.beliefs.scored_probe import ScoredProbe, scored_probes
from render_agent.score.comparison import RIGHT
from render_agent.score.questions import is_scorable, score_answer
from render_agent.tasks.mentions import kind_of, named_categories
from render_agent.tasks.question_types import COUNTING_TYPE

Group = frozenset[tuple[str, int]]
"""Boxes by category and number, one of which has to be on the map; when counting, each is a group of its own."""

WRONGLY_ANSWERED = (Cause.MISJUDGED, Cause.STOPPED_EARLY, Cause.NEVER_LOOKED, Cause.UNKNOWN)
"""The causes that beliefs may tell more of."""


def belief_diagnosis(
    state: QuestionState, diagnosis: Diagnosis, truth: str | None
) -> BeliefDiagnosis | None:
    """Return what the beliefs of a question tell, None if none were asked for.

    truth: what is right in what was shown.
    """
    if not any(turn.probe for turn in state.turns):
        return None
    boxes = boxes_by_category(diagnosis)
    counts = {name: len(some) for name, some in boxes.items()}
    probes = tuple(scored_probes(state, boxes, counts, truth))
    if not probes:
        return BeliefDiagnosis(probes)
    last = probes[-1]
    follows = None
    if state.answer is not None and last.answer is not None:
        with_own_answer = replace(state.question, truth=last.answer, answers=(), metric=None)
        follows = score_answer(with_own_answer, state.answer) >= RIGHT
    return BeliefDiagnosis(probes, last.answer, last.worth, follows)


def boxes_by_category(diagnosis: Diagnosis) -> dict[str, list[OrientedBox]]:
    """Return the named boxes by category, in the order of their numbers."""
    boxes: dict[str, list[OrientedBox]] = {}
    for named in diagnosis.boxes:
        boxes.setdefault(named.category, []).append(named.box)
    return boxes


def _cause_in_beliefs(
    state: QuestionState,
    diagnosis: Diagnosis,
    when: Mapping[int, int],
    probes: Sequence[ScoredProbe],
    truth: str | None,
) -> tuple[Cause, str] | None:
    """Return what the beliefs say of a wrong answer: its cause, which object and when; None if they do not tell.

    when: for the boxes of the diagnosis that were seen well, by index, the first turn in which they were. probes:
    those that could be read, in order. truth: what is right in what was shown.
    """
    groups = _groups(state, diagnosis)
    solved = kind_of(state.question) in SOLVED_TYPES
    known = diagnosis.shown is not None

    def is_right(probe: ScoredProbe) -> bool:
        """Whether all that is needed is on a map, and the right answer follows, where anything does."""
        there = known and all(_holds(probe, group) for group in groups)
        return there and ((probe.worth or 0.0) >= RIGHT if solved else bool(groups))

    last = probes[-1]
    if is_right(last):
        follows = f"{last.answer} follows from its map" if solved else "its map is right"
        return Cause.REASONING, f"{follows}, and it answered {state.answer}"
    no_map = not any(probe.score and probe.score.matching for probe in probes)
    if not diagnosis.shown or (no_map and last.answer is None):
        return None
    for group in groups:
        if not any(_holds(probe, group) for probe in probes):
            seen = f"seen well in {_seen(group, diagnosis, when)}"
            return Cause.PERCEPTION, f"{_name(group)}: {seen}, never on its map where it is"
    for group in groups:
        if not _holds(last, group):
            held = max(probe.turn for probe in probes if _holds(probe, group))
            turns = f"after turn {held + 1}, no longer after turn {last.turn + 1}"
            return Cause.MEMORY, f"{_name(group)}: on its map {turns}"
    if earlier := [probe for probe in probes[:-1] if is_right(probe)]:
        return Cause.MEMORY, f"its map was right after turn {earlier[-1].turn + 1} only"
    if last.answer is None or (
        groups and solved and not _seen_enough(state, diagnosis, when, truth)
    ):
        return None
    return Cause.PERCEPTION, f"all is on its map, which answers {last.answer}"


def _seen_enough(
    state: QuestionState, diagnosis: Diagnosis, when: Mapping[int, int], truth: str | None
) -> bool:
    """Whether the right answer follows from a true map of the boxes that were seen well, and of no others."""
    seen = (diagnosis.boxes[index] for index in when)
    things = (
        BelievedObject(box.category, (box.centre[0], box.centre[1]), length=max(box.size))
        for box in seen
    )
    answer = own_answer(state.question, Belief(tuple(things)), boxes_by_category(diagnosis))
    as_shown = replace(state.question, truth=truth)
    return is_scorable(as_shown) and score_answer(as_shown, answer) >= RIGHT


def _groups(state: QuestionState, diagnosis: Diagnosis) -> list[Group]:
    keys = [(box.category, box.number) for box in diagnosis.boxes]
    if kind_of(state.question) == COUNTING_TYPE:
        return [frozenset({key}) for key in keys]
    names = dict.fromkeys(category for category, _ in keys)
    return [frozenset(key for key in keys if key[0] == name) for name in names]


def _holds(probe: ScoredProbe, group: Group) -> bool:
    """Whether one of the boxes is on a map; where counts alone were asked for, nobody asks where they are."""
    if probe.score is None or probe.score.matching is None:
        return probe.score is not None and probe.score.counts is not None
    return bool(probe.score.matching.found & group)


def _name(group: Group) -> str:
    category, number = min(group)
    return f"{category} {number + 1}" if len(group) == 1 and number else category


def _seen(group: Group, diagnosis: Diagnosis, when: Mapping[int, int]) -> str:
    turns = [
        when[index]
        for index, box in enumerate(diagnosis.boxes)
        if (box.category, box.number) in group and index in when
    ]
    return f"turn {min(turns) + 1}" if turns else "no turn"


def diagnose(
    state: QuestionState,
    visibility: Visibility,
    size: tuple[int, int],
    *,
    truth: str | None,
    passive: bool = False,
) -> Diagnosis:
    """Return the diagnosis of one question.

    visibility: its turns, and what their views showed if it was measured. size: of the pictures. truth:
    what is right in what was shown. passive: whether its views were chosen for it, so that nothing moves.
    """
    question = state.question
    turns = tuple(visibility.turns)
    named = named_categories(question)
    when = seen_well_in(turns, size)
    first_seen = first_shown(question, [box.category for box in visibility.boxes], when)
    shown = was_shown(question, first_seen, turns[-1].coverage if turns else None)
    unseen = shown is False
    early = (
        not passive
        and state.status is Status.ANSWERED
        and len(state.turns) < state.max_turns
        and unseen
    )
    cause = _cause(state, truth)
    if cause is Cause.UNKNOWN:
        if unseen:
            cause = Cause.STOPPED_EARLY if early else Cause.NEVER_LOOKED
        elif shown:
            cause = Cause.MISJUDGED
    diagnosis = Diagnosis(
        question.id, cause, named, visibility.boxes, turns, first_seen, shown, early
    )
    belief = belief_diagnosis(state, diagnosis, truth)
    readable = [probe for probe in belief.probes if probe.score is not None] if belief else []
    told = None
    if readable and cause in WRONGLY_ANSWERED:
        told = _cause_in_beliefs(state, diagnosis, when, readable, truth)
    cause, detail = told or (cause, "")
    return replace(diagnosis, cause=cause, detail=detail, belief=belief)


def _cause(state: QuestionState, truth: str | None) -> Cause:
    """Return the cause as far as it does not depend on what was seen, else UNKNOWN."""
    if state.status in (Status.FAILED, Status.MISSING):
        return Cause.ERROR
    if state.active or truth is None or not is_scorable(state.question):
        return Cause.OPEN
    if state.answer is None:
        return Cause.NO_ANSWER
    right = score_answer(replace(state.question, truth=truth), state.answer) >= RIGHT
    return Cause.RIGHT if right else Cause.UNKNOWN


def seen_well_in(turns: Sequence[TurnDiagnosis], size: tuple[int, int]) -> dict[int, int]:
    """Return for the boxes that were seen well the first turn in which they were."""
    when: dict[int, int] = {}
    for turn in turns:
        for sighting in turn.sightings:
            if sighting.well(size):
                when.setdefault(sighting.box, turn.turn)
    return when
