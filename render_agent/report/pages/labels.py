"""Labels of results and causes for reports."""

from __future__ import annotations

from collections.abc import Iterable

from render_agent.report.diagnosis.model import Cause
from render_agent.runs.log.row import Row
from render_agent.score.comparison import RIGHT
from render_agent.tasks.question_types import TYPES

CAUSE_EXPLANATIONS = {
    Cause.MISJUDGED: "wrong answer although every named object was clearly visible",
    Cause.NEVER_LOOKED: "all turns used, but some named object was never clearly visible",
    Cause.STOPPED_EARLY: "ended with turns left before every named object was clearly visible",
    Cause.PERCEPTION: "clearly visible, but missing from the map or misplaced on it",
    Cause.MEMORY: "on the map at first, then lost",
    Cause.REASONING: "the last map implies the right answer, but another one was given",
    Cause.FORM: "the answer is right, but not in the form that VSI-Bench's script reads",
    Cause.NO_ANSWER: "no readable answer",
    Cause.ERROR: "the question failed or its scan is missing",
    Cause.UNKNOWN: "wrong answer, but no object boxes to compare with",
    Cause.OPEN: "not finished, or no ground truth",
}

# replaces an explanation if the views were preselected
PASSIVE_CAUSE_EXPLANATIONS = {
    Cause.NEVER_LOOKED: "some named object was never clearly visible in the preselected views"
}


def explain_causes(causes: Iterable[Cause], *, passive: bool = False) -> str:
    """Explain causes, one sentence each.

    Args:
        causes: The causes to explain.
        passive: True if the views were preselected.
    """
    explanations = CAUSE_EXPLANATIONS | (PASSIVE_CAUSE_EXPLANATIONS if passive else {})
    return " ".join(f"{c.capitalize()}: {explanations[c]}." for c in causes if c in explanations)


def outcome_label(row: Row | None) -> str:
    """Return `right`, `wrong` or `open` (not scored, or no row) for a row of the results."""
    if row is None or row.score is None:
        return "open"
    return "right" if row.score >= RIGHT else "wrong"


def result_label(score: float | None) -> str:
    """Describe the score of an answer, 0 to 1, in the words of `outcome_label`; "partly right" counts as right."""
    if score is None:
        return "not scored"
    return "right" if score == 1 else "partly right" if score >= RIGHT else "wrong"


def sort_types(types: Iterable[str]) -> list[str]:
    """Sort question types: VSI-Bench's in their order, then all others by name."""
    types = set(types)
    return [*(kind for kind in TYPES if kind in types), *sorted(types.difference(TYPES))]
