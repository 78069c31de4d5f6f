"""The diagnosis of one question: from what its views showed to the cause of a right or wrong answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from render_agent.analysis.diagnosis.first_failure import belief_diagnosis
from render_agent.analysis.diagnosis.model import Cause, Diagnosis, TurnDiagnosis
from render_agent.analysis.diagnosis.path import steps
from render_agent.analysis.diagnosis.visibility_pass import TurnVisibility, Visibility
from render_agent.dialogue.state import QuestionState, Status
from render_agent.questions.mentions import named_categories
from render_agent.questions.sufficiency import first_shown, was_shown
from render_agent.score.comparison import RIGHT


def diagnose(
    state: QuestionState,
    visibility: Visibility,
    size: tuple[int, int],
    *,
    truth: str | None,
    passive: bool = False,
) -> Diagnosis:
    """Return the diagnosis of one question.

    visibility: what its views showed, empty where nobody could tell. size: of the pictures. truth:
    what is right in what was shown. passive: whether its views were chosen for it, so that nothing moves.
    """
    question = state.question
    path = steps(state.turns, said_done=state.said_done) if state.turns else []
    unmeasured = [TurnVisibility()] * len(path)
    turns = tuple(
        replace(
            turn,
            sightings=seen.sightings,
            coverage=seen.coverage,
            blocked=turn.blocked and not (passive or state.blind),
        )
        for turn, seen in zip(path, [*visibility.turns, *unmeasured], strict=False)
    )
    named = named_categories(question)
    first_seen = first_shown(
        question, [box.category for box in visibility.boxes], seen_well_in(turns, size)
    )
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
    found = Diagnosis(question.id, cause, named, visibility.boxes, turns, first_seen, shown, early)
    return replace(found, belief=belief_diagnosis(state, found, seen_well_in(turns, size), truth))


def _cause(state: QuestionState, truth: str | None) -> Cause:
    """Return the cause as far as it does not depend on what was seen, else UNKNOWN."""
    if state.status in (Status.FAILED, Status.MISSING):
        return Cause.ERROR
    if state.active or truth is None or not state.question.scorable:
        return Cause.OPEN
    if state.answer is None:
        return Cause.NO_ANSWER
    right = replace(state.question, truth=truth).score(state.answer) >= RIGHT
    return Cause.RIGHT if right else Cause.UNKNOWN


def seen_well_in(turns: Sequence[TurnDiagnosis], size: tuple[int, int]) -> dict[int, int]:
    """Return for the boxes that were seen well the first turn in which they were."""
    when: dict[int, int] = {}
    for turn in turns:
        for sighting in turn.sightings:
            if sighting.well(size):
                when.setdefault(sighting.box, turn.turn)
    return when
