"""Determines why the answer to a question is right or wrong, from the log and visibility."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from render_agent.dialogue.state import QuestionState, Status
from render_agent.report.diagnosis.model import Cause, Diagnosis, TurnDiagnosis
from render_agent.report.diagnosis.sufficiency import first_shown, needed_objects, saw_all_objects
from render_agent.report.diagnosis.visibility_pass import Visibility
from render_agent.report.report_part import report_parts
from render_agent.score.comparison import RIGHT
from render_agent.score.questions import is_scorable, score_answer
from render_agent.tasks.question_types import named_categories


def diagnose(
    state: QuestionState,
    visibility: Visibility,
    size: tuple[int, int],  # width and height of the images in pixels
    *,
    truth: str | None,
    passive: bool = False,
) -> Diagnosis:
    """Diagnose one question."""
    question = state.question
    turns = tuple(visibility.turns)
    named = named_categories(question)
    first_turns = first_clear_turns(turns, size)
    categories = [box.category for box in visibility.boxes]
    first_seen = first_shown(question, categories, first_turns)
    was_shown = saw_all_objects(question, first_seen, turns[-1].coverage if turns else None)
    was_not_shown = was_shown is False
    premature = (
        not passive
        and state.status is Status.ANSWERED
        and len(state.turns) < state.max_turns
        and was_not_shown
    )
    cause = _cause(state, truth)
    if cause is Cause.UNKNOWN:
        if was_not_shown:
            cause = Cause.STOPPED_EARLY if premature else Cause.NEVER_LOOKED
        elif was_shown:
            cause = Cause.MISJUDGED
    diagnosis = Diagnosis(
        question.id, cause, named, visibility.boxes, turns, first_seen, was_shown, premature,
        needed=needed_objects(question, categories),
    )  # fmt: skip
    for part in report_parts().values():
        diagnosis = part.diagnose(state, diagnosis, first_turns, truth)
    return diagnosis


def _cause(state: QuestionState, truth: str | None) -> Cause:
    """Return the cause if it does not depend on visibility, otherwise UNKNOWN."""
    if state.status in (Status.FAILED, Status.MISSING):
        return Cause.ERROR
    if state.active or truth is None or not is_scorable(state.question):
        return Cause.OPEN
    as_shown = replace(state.question, ground_truth=truth)
    if score_answer(as_shown, state.answer_text) >= RIGHT:
        return Cause.RIGHT
    if state.answer is None:
        return Cause.NO_ANSWER
    return Cause.FORM if score_answer(as_shown, state.answer) >= RIGHT else Cause.UNKNOWN


def first_clear_turns(turns: Sequence[TurnDiagnosis], size: tuple[int, int]) -> dict[int, int]:
    """Return the first turn in which each clearly seen box was clearly visible, by box index."""
    first_turns: dict[int, int] = {}
    for turn in turns:
        for sighting in turn.sightings:
            if sighting.is_clear(size):
                first_turns.setdefault(sighting.box, turn.turn)
    return first_turns
