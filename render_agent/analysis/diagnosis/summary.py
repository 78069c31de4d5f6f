"""Figures over the diagnoses of a run, for all questions and by type, and their table on a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean as mean
from types import MappingProxyType
from typing import Any

from rich.table import Table

from render_agent.analysis.diagnosis.model import Cause, Diagnosis
from render_agent.dialogue.state import QuestionState, split_counterparts
from render_agent.text.console import plain_table
from render_agent.text.display import counted

JUDGED = (Cause.RIGHT, Cause.MISJUDGED, Cause.STOPPED_EARLY, Cause.NEVER_LOOKED)
"""The causes of answers that can be set against what was seen."""

WRONG = (*JUDGED[1:], Cause.NO_ANSWER, Cause.UNKNOWN)
"""The causes of questions that are not right."""

HEADS = {
    Cause.RIGHT: "right",
    Cause.MISJUDGED: "mis-\njudged",
    Cause.STOPPED_EARLY: "stop-\nped\nearly",
    Cause.NEVER_LOOKED: "never\nlooked",
    Cause.NO_ANSWER: "no\nanswer",
    Cause.UNKNOWN: "un-\nknown",
    Cause.ERROR: "error",
    Cause.OPEN: "open",
}
SEEN = {"well": "right,\nseen\nwell", "not_well": "right,\nnot\nwell"}


def summary(states: Sequence[QuestionState], diagnoses: Mapping[str, Diagnosis]) -> dict[str, Any]:
    """Return the figures of a run: `all` of them, and those of each of its `types`.

    Each holds: `questions`; `causes`, questions by cause; `seen`, of the questions of which it can be told
    and whose answers were read, how many are right and wrong where all that they are about had been seen
    well and where not, and the percentage that is right: the wrong ones are those that misjudged, and
    those that stopped early or never looked; `coverage`, the mean share of the room's visible
    surface seen by each turn, a finished question keeping its last; `turns_to_see`, the mean number of
    turns until all that is named was seen well, where it was; `premature`, `blocked`, `returns` and `repairs`, how many of all
    questions together; `metres` and `degrees` a question. Counterparts count nowhere.
    """
    by_type: dict[str, list[Diagnosis]] = {}
    for state in split_counterparts(states)[0]:
        if state.id in diagnoses:
            by_type.setdefault(state.question.type, []).append(diagnoses[state.id])
    return {
        "all": _figures([diagnosis for group in by_type.values() for diagnosis in group]),
        "types": {name: _figures(group) for name, group in by_type.items()},
    }


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
    early, never = causes[str(Cause.STOPPED_EARLY)], causes[str(Cause.NEVER_LOOKED)]
    parts = [
        (early + never, f"something named had not been seen well ({early:,} stopped early)"),
        (causes[str(Cause.MISJUDGED)], "all that is named had been seen well and was misjudged"),
        (causes[str(Cause.NO_ANSWER)], "no answer could be read"),
        (causes[str(Cause.UNKNOWN)], "nobody can tell what had to be seen"),
    ]
    shares = [f"in {100 * number / wrong:.0f} % {words}" for number, words in parts if number]
    which = "the wrong answer" if wrong == 1 else f"{wrong:,} wrong answers"
    sentence = f"Of {which}, {'; '.join(shares)}"
    seen, unseen = (figures["seen"][name]["percent"] for name in ("well", "not_well"))
    if seen is None or unseen is None:
        return sentence + "."
    return f"{sentence}. Right: {seen:.0f} % where all was seen well, {unseen:.0f} % where not."


def _figures(diagnoses: Sequence[Diagnosis]) -> dict[str, Any]:
    causes = Counter(str(diagnosis.cause) for diagnosis in diagnoses)
    judged = [d for d in diagnoses if d.shown is not None and d.cause in JUDGED]
    until = [
        1 + max(turn for turn in d.first_seen.values() if turn is not None)
        for d in judged
        if d.shown and d.first_seen
    ]
    walked = [d for d in diagnoses if d.turns]
    turned = [sum(turn.turned for turn in d.turns) for d in walked]
    return {
        "questions": len(diagnoses),
        "causes": {str(cause): causes[str(cause)] for cause in Cause},
        "seen": {
            "well": _right([d for d in judged if d.shown]),
            "not_well": _right([d for d in judged if not d.shown]),
        },
        "coverage": _coverage(walked),
        "turns_to_see": _mean(until, 2),
        "premature": sum(d.premature for d in diagnoses),
        "blocked": sum(d.blocked for d in diagnoses),
        "returns": sum(d.returns for d in diagnoses),
        "repairs": sum(d.repairs for d in diagnoses),
        "metres": _mean([d.path for d in walked], 2),
        "degrees": _mean(turned, 1),
    }


def _right(diagnoses: Sequence[Diagnosis]) -> dict[str, Any]:
    right = sum(d.cause is Cause.RIGHT for d in diagnoses)
    return {
        "right": right,
        "wrong": len(diagnoses) - right,
        "percent": round(100 * right / len(diagnoses), 1) if diagnoses else None,
    }


def _coverage(diagnoses: Sequence[Diagnosis]) -> list[float]:
    curves = [[t.coverage or 0.0 for t in d.turns] for d in diagnoses if d.coverage is not None]
    longest = max(map(len, curves), default=0)
    return [
        round(mean(curve[min(turn, len(curve) - 1)] for curve in curves), 4)
        for turn in range(longest)
    ]


def _mean(values: Sequence[float], digits: int) -> float | None:
    return round(mean(values), digits) if values else None


def cause_table(summary: Mapping[str, Any]) -> Table:
    """Return the causes by type, with right and wrong set against what was seen; see `summary`."""
    everything = summary["all"]
    causes = [c for c in Cause if c in JUDGED or everything["causes"][str(c)]]
    shown = {cause: HEADS[cause] for cause in causes}
    return counts_table("Why answers are right or wrong, questions", summary, "causes", shown, SEEN)


def counts_table(
    title: str,
    summary: Mapping[str, Any],
    counts: str,
    heads: Mapping[Any, str],
    seen: Mapping[str, str] = MappingProxyType({}),
) -> Table:
    """Return a table of how many questions of each row of a summary were what.

    counts: the name of these numbers among the figures. heads: of their columns, by what they count. seen: heads of
    the percentages that are right, set against what was seen.
    """
    table = plain_table(title)
    table.add_column("question type", no_wrap=True)
    for head in ("n", *heads.values(), *seen.values()):
        width = max(map(len, head.splitlines()))
        table.add_column(head, justify="right", no_wrap=True, min_width=max(width, 5))
    groups = (
        sorted(summary["types"].items()),
        [("all", summary["all"])],
    )
    for rows in groups:
        for label, figures in rows:
            table.add_row(
                label.removeprefix("object_"),  # it would not fit into 80 columns
                f"{figures['questions']:,}",
                *(f"{figures[counts][str(kind)]:,}" for kind in heads),
                *(_percent(figures["seen"][name]) for name in seen),
            )
        table.add_section()
    return table


def notes(summary: Mapping[str, Any]) -> list[str]:
    """Return what is said below the table, a line each."""
    figures = summary["all"]
    lines = [
        "right, seen well: of the questions whose objects had all been seen well; not well: of the others."
        " These are different questions, so the difference does not prove that looking helps.",
        reading(figures),
    ]
    if figures["coverage"]:
        by_turn = " ".join(f"{100 * value:.0f}" for value in figures["coverage"])
        lines.append(f"Seen of the room's visible surface by turn, %: {by_turn}.")
    if figures["metres"] is not None:
        lines.append(
            f"A question: {figures['metres']:.1f} m walked, {figures['degrees']:.0f}° turned. All:"
            f" {counted(figures['blocked'], 'move')} blocked, {figures['returns']:,} ways back,"
            f" {figures['premature']:,} stopped too early, {figures['repairs']:,} replies not readable."
        )
    return lines


def _percent(cell: Mapping[str, Any]) -> str:
    return "–" if cell["percent"] is None else f"{cell['percent']:.0f} %"
