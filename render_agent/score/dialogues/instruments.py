"""How a model treats instruments that can be wrong: figures over the readings in the log, with intervals over scenes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any

from render_agent.dialogue.reply import Point
from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.turn import Reading
from render_agent.score.questions import metric_of
from render_agent.score.terms import Term, summarize_terms

# Places at most this far apart count as the same place.
SAME_PLACE_METRES = 0.25

# share in percent of questions, and its label in tables and pages
LABELS = {
    "wrong": "any wrong reading (%)",
    "measured_again": "measured again (%)",
    "looked": "looked after measuring (%)",
    "contradicted": "contradicted all readings (%)",
}


def instrument_figures(states: Sequence[QuestionState]) -> dict[str, Any] | None:
    """Return the entry `instruments` of `results.json`; None if all instruments were exact.

    All shares are of the questions with a reading.
    """
    states = [state for state in states if any(turn.readings for turn in state.turns)]
    if not states:
        return None
    figures: dict[str, Any] = {
        "questions": len(states),
        "readings": sum(len(turn.readings) for state in states for turn in state.turns),
    }
    for name, judge in _JUDGES.items():
        terms = [
            Term((state.question.dataset, state.question.scene), verdict)
            for state in states
            if (verdict := judge(state)) is not None
        ]
        if entry := summarize_terms(terms):
            figures[name] = entry
    return figures


def instrument_notes(results: Mapping[str, Any]) -> list[str]:
    """Return a note with the shares in `results.json`; empty if all instruments were exact."""
    figures = results.get("instruments", {})
    shares = [
        f"{label} {figures[name]['value']:.1f}" for name, label in LABELS.items() if name in figures
    ]
    return [f"questions with a reading: {', '.join(shares)}"] if shares else []


def _readings(state: QuestionState, *instruments: str) -> list[tuple[int, Reading]]:
    """Return the readings of some instruments, or of all, with their turns."""
    return [
        (turn.number, reading)
        for turn in state.turns
        for reading in turn.readings
        if not instruments or reading.instrument in instruments
    ]


def _was_wrong(state: QuestionState) -> bool:
    """Return True if a reading differed from the truth at least once."""
    return any(reading.told != reading.true for _, reading in _readings(state))


def _measured_again(state: QuestionState) -> bool | None:
    """Return True if a later measurement had all places of an earlier one; None without measurements."""
    readings = [reading for _, reading in _readings(state, "measure")]
    if not readings:
        return None
    return any(
        bool(earlier.points) and all(_is_among(point, later.points) for point in earlier.points)
        for earlier, later in combinations(readings, 2)
    )


def _is_among(point: Point, points: Sequence[Point]) -> bool:
    return any(math.dist(point, other) <= SAME_PLACE_METRES for other in points)


def _looked(state: QuestionState) -> bool | None:
    """Return True if a view was shown after the first reading of a measurement; None without measurements."""
    readings = _readings(state, "measure")
    if not readings:
        return None
    first_turn = readings[0][0]
    return any(turn.views for turn in state.turns if turn.number > first_turn)


def _contradicted(state: QuestionState) -> bool | None:
    """Return True if the answer agrees with no reading; None if no reading implies an answer.

    Two answers agree if one gets full marks with the other as the ground truth.
    """
    implied = {answer for _, reading in _readings(state) for answer in reading.implied}
    metric = metric_of(state.question)
    if state.answer is None or not implied or metric.needs_judge:
        return None
    return not any(metric.score(state.answer, (answer,)) == 1 for answer in implied)


_JUDGES: dict[str, Callable[[QuestionState], bool | None]] = {
    "wrong": _was_wrong,
    "measured_again": _measured_again,
    "looked": _looked,
    "contradicted": _contradicted,
}
