"""Labels of results and causes for reports."""

from __future__ import annotations

from collections.abc import Iterable

from render_agent.dialogue.answer import unit_symbol
from render_agent.dialogue.question import Question
from render_agent.report.diagnosis.model import HIGH_SCORE, LOW_SCORE, Cause
from render_agent.runs.log.row import Row
from render_agent.score.comparison import RIGHT
from render_agent.util.numbers import is_number

CAUSE_EXPLANATIONS = {
    Cause.MISJUDGED: "score below 50 % although every named object was clearly visible",
    Cause.NEVER_LOOKED: "all turns used, but some named object was never clearly visible",
    Cause.STOPPED_EARLY: "ended with turns left before every named object was clearly visible",
    Cause.PERCEPTION: "clearly visible, but missing from the map or misplaced on it",
    Cause.MEMORY: "on the map at first, then lost",
    Cause.REASONING: "the last map implies a better answer than the one given",
    Cause.FORM: "the answer is not in the form that VSI-Bench's script reads",
    Cause.NO_ANSWER: "no readable answer",
    Cause.ERROR: "the question failed or its scan is missing",
    Cause.UNKNOWN: "score below 50 %, but no object boxes to compare with",
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
OUTCOME_LABELS = {"right": HIGH_SCORE, "wrong": LOW_SCORE, "open": "not scored"}


def result_label(question: Question, answer: str | None, score: float | None) -> str:
    """Describe the score of an answer: right or wrong for choices, for example "1.3 m for 1.8 m: 40 %" for numbers."""
    if score is None:
        return "not scored"
    if question.answer_form == "letter":
        return "right" if score >= RIGHT else "wrong"
    if question.answer_form == "pose":
        return "reached" if score >= RIGHT else "not reached"
    points = f"{100 * score:.0f} %"
    if question.answer_form == "text":
        return points
    given, truth = (with_unit(question, text) for text in (answer, question.ground_truth))
    return f"{given or 'no answer'} for {truth}: {points}"


def with_unit(question: Question, answer: str | None) -> str | None:
    """Append the symbol of the unit that a question names to a number; return other answers unchanged."""
    if answer is None or question.unit is None or not is_number(answer):
        return answer
    return f"{answer} {unit_symbol(question.unit)}"
