"""From what a dialogue showed to why it went as it did."""

from __future__ import annotations

from collections.abc import Sequence

from render_agent.analysis.diagnosis.model import Cause, Diagnosis, TurnDiagnosis
from render_agent.analysis.diagnosis.path import Step, steps
from render_agent.analysis.diagnosis.visibility_pass import Watched, WatchedTurn
from render_agent.dialogue.reply import Malformed
from render_agent.dialogue.state import QuestionState, Status
from render_agent.questions.mentions import named_categories
from render_agent.questions.sufficiency import first_shown, was_shown
from render_agent.render.visibility.object_visibility import Seen, seen_well
from render_agent.score.official import score_answer

RIGHT = 0.5
"""A score from which on an answer counts as right."""


def diagnose(
    state: QuestionState,
    watched: Watched,
    size: tuple[int, int],
    *,
    truth: str | None,
    passive: bool = False,
) -> Diagnosis:
    """Return the diagnosis of one question.

    watched: what its views showed, empty where nobody could tell. size: of the pictures. truth:
    what is right in what was shown. passive: whether its views were chosen for it, so that nothing moves.
    """
    question = state.question
    moved = steps(state.turns, said_done=state.said_done) if state.turns else []
    turns = tuple(
        _turn(state, number, step, watched, passive=passive) for number, step in enumerate(moved)
    )
    named = named_categories(question)
    first_seen = first_shown(
        question, [box.category for box in watched.boxes], _seen_well(turns, size)
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
    return Diagnosis(question.id, cause, named, watched.boxes, turns, first_seen, shown, early)


def _turn(
    state: QuestionState, number: int, step: Step, watched: Watched, *, passive: bool
) -> TurnDiagnosis:
    seen = watched.turns[number] if number < len(watched.turns) else WatchedTurn()
    return TurnDiagnosis(
        number,
        seen.sightings,
        seen.coverage,
        step.path,
        step.turned,
        step.blocked and not (passive or state.blind),
        isinstance(state.turns[number].action, Malformed),
        step.returned,
    )


def _cause(state: QuestionState, truth: str | None) -> Cause:
    """Return the cause as far as it does not depend on what was seen, else UNKNOWN."""
    if state.status in (Status.FAILED, Status.MISSING):
        return Cause.ERROR
    if state.active or truth is None:
        return Cause.OPEN
    if state.answer is None:
        return Cause.PROTOCOL
    right = score_answer(state.question.type, state.answer, truth) >= RIGHT
    return Cause.RIGHT if right else Cause.UNKNOWN


def _seen_well(turns: Sequence[TurnDiagnosis], size: tuple[int, int]) -> dict[int, int]:
    """Return for the boxes that were seen well the first turn in which they were."""
    when: dict[int, int] = {}
    for turn in turns:
        for sighting in turn.sightings:
            seen = Seen(sighting.area, sighting.share, sighting.distance)
            if sighting.box not in when and seen_well(seen, size):
                when[sighting.box] = turn.turn
    return when
