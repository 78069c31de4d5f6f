"""Labels of results and causes for reports."""

from __future__ import annotations

from collections.abc import Iterable

from render_agent.dialogue.question import Question
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
    """Explain causes, one sentence each."""
    explanations = CAUSE_EXPLANATIONS | (PASSIVE_CAUSE_EXPLANATIONS if passive else {})
    return " ".join(f"{c.capitalize()}: {explanations[c]}." for c in causes if c in explanations)


def outcome_label(row: Row | None) -> str:
    """Return `right`, `wrong` or `open` (not scored, or no row) for a row of the results."""
    if row is None or row.score is None:
        return "open"
    return "right" if row.score >= RIGHT else "wrong"


# `outcome_label` -> its name for people; numbers have scores between right and wrong
OUTCOME_LABELS = {
    "right": "score at least 50 %",
    "wrong": "score below 50 %",
    "open": "not scored",
}


def result_label(question: Question, answer: str | None, score: float | None) -> str:
    """Describe the score of an answer: right or wrong for choices, for example "1.3 for 1.8: 40 %" for numbers."""
    if score is None:
        return "not scored"
    if question.answer_form == "letter":
        return "right" if score >= RIGHT else "wrong"
    points = f"{100 * score:.0f} %"
    if question.answer_form == "text":
        return points
    return f"{answer or 'no answer'} for {question.ground_truth}: {points}"


def sort_types(types: Iterable[str]) -> list[str]:
    """Sort question types: VSI-Bench's in their order, then all others by name."""
    types = set(types)
    return [*(kind for kind in TYPES if kind in types), *sorted(types.difference(TYPES))]
