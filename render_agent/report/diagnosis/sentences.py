"""The sentences that say why answers are wrong: of one question, and of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from render_agent.report.diagnosis.judge import seen_well_in
from render_agent.report.diagnosis.model import Cause, Diagnosis, name_of
from render_agent.report.diagnosis.summary import WRONG
from render_agent.runs.build import Parts
from render_agent.util.display import counted, listed

REASONS = {
    Cause.STOPPED_EARLY: "stopped before everything named had been seen well",
    Cause.NEVER_LOOKED: "used all turns and had not seen everything named well",
    Cause.MISJUDGED: "misjudged although everything named had been seen well",
    Cause.PERCEPTION: "had seen everything named well, and the map was wrong",
    Cause.MEMORY: "had what was needed on the map and lost it",
    Cause.REASONING: "contradicted the last map, from which the right answer follows",
    Cause.NO_ANSWER: "could not be read",
    Cause.UNKNOWN: "asked about things of which nothing tells whether they were seen",
}
"""What wrong answers of each cause have in common."""


def reading(figures: Mapping[str, Any]) -> str:
    """Return one sentence that says why answers are wrong, from the figures of a run or a type."""
    causes = figures["causes"]
    wrong = sum(causes[str(cause)] for cause in WRONG)
    if not wrong:
        unjudged = causes[str(Cause.OPEN)]
        return (
            f"No answer is known to be wrong; {unjudged:,} not judged."
            if unjudged
            else "No answer is wrong."
        )
    parts = [f"{causes[str(c)]:,} {words}" for c, words in REASONS.items() if causes[str(c)]]
    return f"Of {counted(wrong, 'wrong answer')}, {'; '.join(parts)}."


def summary_sentences(figures: Mapping[str, Any]) -> list[str]:
    """Return the sentences below the table, one per line; figures: as `summarize_diagnoses` returns them."""
    everything, beliefs = figures["all"], figures.get("beliefs")
    lines = [reading(everything)]
    well, not_well = (everything["seen"][name]["percent"] for name in ("well", "not_well"))
    if well is not None and not_well is not None:
        lines.append(
            f"Right if everything named was seen well: {well:.0f} %; otherwise: {not_well:.0f} %. These are different"
            " questions, so the difference does not prove that looking helps."
        )
    if everything["coverage"]:
        by_turn = " ".join(f"{100 * value:.0f}" for value in everything["coverage"])
        lines.append(f"Visible surface seen by turn, %: {by_turn}.")
    if everything["metres"] is not None:
        lines.append(
            f"Per question: {everything['metres']:.1f} m walked, {everything['degrees']:.0f}° turned. In total:"
            f" {counted(everything['blocked'], 'blocked move')}, {counted(everything['returns'], 'return')},"
            f" {everything['premature']:,} stopped early,"
            f" {counted(everything['repairs'], 'unreadable reply', 'unreadable replies')}."
        )
    if beliefs and (found := beliefs["seen_found"]):
        lines.append(
            f"Of {found['n']:,} objects seen well, {found['value']:.0f} % are on the last maps."
        )
    if beliefs and (own := beliefs["own_answer"]):
        lines.append(
            f"Answers from the last maps would score {own['value']:.1f}, those given score"
            f" {beliefs['answer']['value']:.1f} ({counted(own['n'], 'question')})."
        )
    return lines


def cause_words(diagnosis: Diagnosis, parts: Parts) -> str:
    """Return the cause of a question, with what it never saw or why nobody can tell."""
    cause, lacking = diagnosis.cause, ", ".join(missed(diagnosis, parts.config.image_size))
    if cause is Cause.UNKNOWN and parts.blind:
        return "unknown: it was shown nothing"
    if cause is Cause.UNKNOWN and not parts.faithful:
        return "unknown: its pictures did not show its scene"
    if diagnosis.detail:
        return f"{cause}: {diagnosis.detail}"
    if lacking and cause is Cause.RIGHT:
        return f"right, without having seen well: {lacking}"
    if lacking and cause not in (Cause.ERROR, Cause.OPEN):
        return f"{cause} (never seen well: {lacking})"
    if cause is Cause.UNKNOWN:
        return "unknown: nothing tells what it would have had to see"
    return str(cause)


def wrong_because(diagnosis: Diagnosis, size: tuple[int, int]) -> str | None:
    """Return why an answer is wrong, as a sentence; None if it is not wrong or nobody can tell."""
    if diagnosis.detail:
        return f"Wrong: {diagnosis.cause}. {diagnosis.detail.capitalize()}."
    objects = listed(missed(diagnosis, size))
    lacking = f"{objects} well" if objects else "enough of the room"  # whose size it was asked for
    return {
        Cause.STOPPED_EARLY: f"Wrong: it stopped with turns left before it had seen {lacking}.",
        Cause.NEVER_LOOKED: f"Wrong: it used its turns and never saw {lacking}.",
        Cause.MISJUDGED: "Wrong: it had seen everything named well, and misjudged it.",
        Cause.NO_ANSWER: "Wrong: no answer could be read from what it said.",
    }.get(diagnosis.cause)


def belief_words(diagnosis: Diagnosis, answer: str | None) -> str:
    """Return what follows from the last map of a question, and whether it answered that; empty if nothing follows."""
    belief = diagnosis.belief
    if belief is None or belief.answer is None:
        return ""
    same = "as it did" if belief.follows else f"it answered {answer or 'nothing'}"
    return f"From its last map follows {belief.answer}; {same}."


def missed(diagnosis: Diagnosis, size: tuple[int, int]) -> list[str]:
    """Return what was never seen well: a category, or its boxes if others of it were (when counting)."""
    seen = seen_well_in(diagnosis.turns, size)
    names: list[str] = []
    for category in diagnosis.never_seen:
        own = [(n, box) for n, box in enumerate(diagnosis.boxes) if box.category == category]
        left = [name_of(box, diagnosis.boxes) for number, box in own if number not in seen]
        names += left if len(left) < len(own) else [category]
    return names
