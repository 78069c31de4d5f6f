"""Summary of a run's diagnoses: figures and a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean as mean
from typing import Any

from render_agent.dialogue.state import QuestionState
from render_agent.report.diagnosis.model import JUDGED, Cause, Diagnosis
from render_agent.report.report_part import report_parts
from render_agent.report.sentences.contrasts import contrasts
from render_agent.tasks.question_types import sort_types, type_label
from render_agent.util.console import PlainTable

ALWAYS_SHOWN = JUDGED[:4]  # causes with a column in the table even if no question has them


def summarize_diagnoses(
    states: Sequence[QuestionState],
    diagnoses: Mapping[str, Diagnosis],
    size: tuple[int, int],  # width and height of the images in pixels
) -> dict[str, Any]:
    """Summarize the diagnoses of questions: over `all`, by type in `types`, `contrasts`, and entries of report parts.

    `causes` counts questions by cause. `seen` has the answers and the share of right ones, by whether all named objects were
    seen clearly. `coverage` is the mean share of visible surface by turn. `premature`, `blocked`, `returns` and `repairs` are
    totals; `metres` and `degrees` are means per question.
    """
    states = [state for state in states if state.id in diagnoses]
    by_type: dict[str, list[Diagnosis]] = {}
    for state in states:
        by_type.setdefault(state.question.type, []).append(diagnoses[state.id])
    scenes = {state.id: (state.question.dataset, state.question.scene) for state in states}
    figures: dict[str, Any] = {
        "all": _figures([diagnosis for group in by_type.values() for diagnosis in group]),
        "types": {name: _figures(group) for name, group in by_type.items()},
        "contrasts": contrasts([diagnoses[state.id] for state in states], scenes),
    }
    for part in report_parts().values():
        figures |= part.figures(states, diagnoses, size)
    return figures


def _figures(diagnoses: Sequence[Diagnosis]) -> dict[str, Any]:
    causes = Counter(str(diagnosis.cause) for diagnosis in diagnoses)
    judged_diagnoses = [d for d in diagnoses if d.saw_all is not None and d.cause in JUDGED]
    turns_to_see = [
        1 + max(turn for turn in d.first_seen.values() if turn is not None)
        for d in judged_diagnoses
        if d.saw_all and d.first_seen
    ]
    with_turns = [d for d in diagnoses if d.turns]
    degrees = [sum(turn.turned for turn in d.turns) for d in with_turns]
    return {
        "questions": len(diagnoses),
        "causes": {str(cause): causes[str(cause)] for cause in Cause},
        "seen": {
            "well": _right([d for d in judged_diagnoses if d.saw_all]),
            "not_well": _right([d for d in judged_diagnoses if not d.saw_all]),
        },
        "coverage": _coverage(with_turns),
        "turns_to_see": _mean(turns_to_see, 2),
        "premature": sum(d.premature for d in diagnoses),
        "blocked": sum(d.blocked for d in diagnoses),
        "returns": sum(d.returns for d in diagnoses),
        "repairs": sum(d.repairs for d in diagnoses),
        "metres": _mean([d.path for d in with_turns], 2),
        "degrees": _mean(degrees, 1),
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
    num_turns = max(map(len, curves), default=0)
    return [
        round(mean(curve[min(turn, len(curve) - 1)] for curve in curves), 4)
        for turn in range(num_turns)
    ]


def _mean(values: Sequence[float], digits: int) -> float | None:
    return round(mean(values), digits) if values else None


def cause_table(figures: Mapping[str, Any]) -> PlainTable:
    """Return a table of the number of questions by cause and question type."""
    totals = figures["all"]["causes"]
    causes = [c for c in Cause if c in ALWAYS_SHOWN or totals[str(c)]]
    heads = (cause.label for cause in causes)
    table = PlainTable("Causes of high and low scores", "question type", "n", *heads)
    for name in sort_types(figures["types"]):
        table.add_row(type_label(name), *_cells(figures["types"][name], causes))
    table.add_section()
    table.add_row("all", *_cells(figures["all"], causes))
    return table


def _cells(figures: Mapping[str, Any], causes: Sequence[Cause]) -> list[str]:
    counts = [figures["questions"], *(figures["causes"][str(cause)] for cause in causes)]
    return [f"{count:,}" for count in counts]
