"""Measures of questions whose answer is a pose: errors, path length and overlap, with intervals over scenes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from render_agent.dialogue.question import TargetError
from render_agent.dialogue.state import SCORED, QuestionState
from render_agent.score.intervals import ratio
from render_agent.score.metrics import StrictViewSuccess, ViewSuccess
from render_agent.score.terms import Term, compare_terms
from render_agent.tasks.question_types import sort_types

TURN_MEASURES = ("success", "overlap", "position_metres", "heading_degrees")  # reported by turn

# A question's errors at the start and after each turn -> the measure; None if it is undefined.
Compute = Callable[[Sequence[TargetError]], float | None]


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure that is reported as a mean over questions."""

    label: str
    compute: Compute
    is_share: bool = False  # True if values are from 0 to 1 and shown in percent


def is_success(error: TargetError) -> bool:
    """Return True if a pose counts as correct."""
    return error.is_within(*ViewSuccess.limits)


def path_taken(errors: Sequence[TargetError]) -> float:
    """Return the sum of the distances between the poses of successive turns in metres."""
    return sum(math.dist(a.pose[:3], b.pose[:3]) for a, b in pairwise(errors))


def success_by_path_length(errors: Sequence[TargetError]) -> float | None:
    """Return SPL (Anderson et al. 2018, arXiv 1807.06757): success times shortest path over path taken.

    None if the start is at the target's place or no path leads there.
    """
    shortest = errors[0].path
    if not shortest:
        return None
    return is_success(errors[-1]) * shortest / max(path_taken(errors), shortest)


MEASURES: Mapping[str, Measure] = {
    "success": Measure(
        "success, 0.5 m and 30° (%)", lambda errors: float(is_success(errors[-1])), True
    ),
    "success_strict": Measure(
        "success, 0.25 m and 15° (%)",
        lambda errors: float(errors[-1].is_within(*StrictViewSuccess.limits)),
        True,
    ),
    "spl": Measure("success by path length, SPL (%)", success_by_path_length, True),
    "overlap": Measure("overlap of visible surface (%)", lambda errors: errors[-1].overlap, True),
    "position_metres": Measure("position error (m)", lambda errors: errors[-1].position),
    "heading_degrees": Measure("heading error (°)", lambda errors: errors[-1].heading),
    "pitch_degrees": Measure("pitch error (°)", lambda errors: errors[-1].pitch),
}


def view_columns(errors: Sequence[TargetError]) -> dict[str, Any]:
    """Return the columns of a question's row; empty if its answer is not a pose."""
    names = ("position_metres", "heading_degrees", "pitch_degrees", "overlap", "spl")
    return {name: MEASURES[name].compute(errors) for name in names if errors}


def view_measures(states: Sequence[QuestionState]) -> dict[str, Any]:
    """Return `views` of results for scored questions: the measures, overall and by type, and their means by turn.

    The result is empty if no question asks for a pose.
    """
    states = [state for state in states if state.target_errors]
    if not states:
        return {}
    by_type = {
        name: _means([state for state in states if state.question.type == name])
        for name in sort_types(state.question.type for state in states)
    }
    longest = max(len(state.target_errors) for state in states)
    by_turn = [
        {"turn": turn, **_means(states, turn, names=TURN_MEASURES)} for turn in range(longest)
    ]
    return {"views": {**_means(states), "types": by_type, "by_turn": by_turn}}


def compare_views(
    a: Sequence[QuestionState], b: Sequence[QuestionState]
) -> dict[str, dict[str, Any]]:
    """Return the differences between the measures of two runs over the questions that both have scored."""
    sides = [
        {s.id: s for s in states if s.target_errors and s.status in SCORED} for states in (a, b)
    ]
    shared = [(sides[0][name], sides[1][name]) for name in sides[0] if name in sides[1]]
    differences = {}
    for name, measure in MEASURES.items():
        terms: list[list[Term]] = [[], []]
        for pair in shared:
            values = [measure.compute(state.target_errors) for state in pair]
            question = pair[0].question
            for side, value in zip(terms, values, strict=True):
                if None not in values and value is not None:
                    side.append(Term((question.dataset, question.scene), value))
        entry = compare_terms(*terms, scale=100 if measure.is_share else 1)
        if entry is not None:
            differences[name] = entry
    return differences


def _means(
    states: Sequence[QuestionState], turn: int | None = None, names: Iterable[str] = ()
) -> dict[str, Any]:
    """Return mean, interval and number of questions of each measure, after some turns or at the end.

    Dialogues that ended earlier count with their last pose.
    """
    means: dict[str, Any] = {}
    for name in names or MEASURES:
        measure = MEASURES[name]
        last = None if turn is None else turn + 1
        values = [(state, measure.compute(state.target_errors[:last])) for state in states]
        known = [(state.question, value) for state, value in values if value is not None]
        estimate = ratio([x for _, x in known], [(q.dataset, q.scene) for q, _ in known])
        if estimate is not None:
            scale = 100 if measure.is_share else 1
            interval = estimate.interval(scale, share=measure.is_share)
            if interval is not None:
                interval[0] = max(interval[0], 0.0)  # no measure is negative
            mean = scale * float(estimate.mean)
            means[name] = {"mean": mean, "interval": interval, "n": len(known)}
    return means
