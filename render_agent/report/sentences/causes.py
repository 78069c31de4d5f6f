"""Sentences that explain low scores, for one question and for a whole run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from render_agent.report.diagnosis.cause import first_clear_turns
from render_agent.report.diagnosis.model import Cause, Diagnosis, group_name
from render_agent.report.report_part import report_parts
from render_agent.report.sentences.contrasts import contrast_sentences
from render_agent.runs.build import Parts
from render_agent.util.display import count_noun, join_names


def summary_sentences(figures: Mapping[str, Any]) -> list[str]:
    """Return the sentences below the table of causes, one per line."""
    totals = figures["all"]
    lines = contrast_sentences(figures)
    if totals["coverage"]:
        by_turn = " ".join(f"{100 * value:.0f}" for value in totals["coverage"])
        lines.append(f"Visible surface seen (%), by turn: {by_turn}.")
    if totals["metres"] is not None:
        lines.append(
            f"Mean per question: {totals['metres']:.1f} m moved, {totals['degrees']:.0f}° turned. Total:"
            f" {count_noun(totals['blocked'], 'blocked move')}, {count_noun(totals['returns'], 'backtrack')},"
            f" {totals['premature']:,} ended before seeing everything,"
            f" {count_noun(totals['repairs'], 'unreadable reply', 'unreadable replies')}."
        )
    for part in report_parts().values():
        lines += part.sentences(figures)
    return lines


def describe_cause(diagnosis: Diagnosis, parts: Parts) -> str:
    """Describe the cause of a question's result, with the objects that were never seen clearly."""
    cause = diagnosis.cause
    unseen_names = ", ".join(unseen_objects(diagnosis, parts.config.image_size))
    if cause is Cause.UNKNOWN and parts.blind:
        return "unknown: no images were shown"
    if cause is Cause.UNKNOWN and not parts.faithful:
        return "unknown: the images did not show the scene"
    if diagnosis.detail:
        return f"{cause}: {diagnosis.detail}"
    if unseen_names and cause is Cause.RIGHT:
        return f"{cause.label}, without clearly seeing: {unseen_names}"
    if unseen_names and cause not in (Cause.ERROR, Cause.OPEN):
        return f"{cause} (never seen clearly: {unseen_names})"
    if cause is Cause.UNKNOWN:
        return "unknown: no object boxes for this question"
    return cause.label


def explain_wrong_answer(diagnosis: Diagnosis, size: tuple[int, int]) -> str | None:
    """Return a sentence that explains a low score; None if the score is high or the cause is unknown."""
    if diagnosis.detail:
        return f"{diagnosis.cause.capitalize()}. {diagnosis.detail.capitalize()}."
    objects = join_names(unseen_objects(diagnosis, size))
    unseen_text = f"{objects} clearly" if objects else "enough of the room"  # room-size questions
    return {
        Cause.STOPPED_EARLY: f"It finished with turns left before seeing {unseen_text}.",
        Cause.NEVER_LOOKED: f"It used all turns without seeing {unseen_text}.",
        Cause.MISJUDGED: "It saw every named object clearly but misjudged the answer.",
        Cause.FORM: "Its answer is not in the form that VSI-Bench's script reads.",
        Cause.NO_ANSWER: "It gave no readable answer.",
    }.get(diagnosis.cause)


def unseen_objects(diagnosis: Diagnosis, size: tuple[int, int]) -> list[str]:
    """Return the names of needed objects that were never seen clearly, or the category if this applies to all its
    objects.
    """
    first_turns, boxes = first_clear_turns(diagnosis.turns, size), diagnosis.boxes
    names: list[str] = []
    for category in diagnosis.never_seen:
        groups = [group for group in diagnosis.needed if boxes[group[0]].category == category]
        unseen = [
            group_name(group, boxes) for group in groups if first_turns.keys().isdisjoint(group)
        ]
        names += unseen if len(unseen) < len(groups) else [category]
    return names
