"""Summary of a run's diagnoses: figures and a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean as mean
from typing import Any

from render_agent.beliefs.scored_probe import ScoredProbe
from render_agent.dialogue.state import QuestionState
from render_agent.report.diagnosis.model import JUDGED, BeliefDiagnosis, Cause, Diagnosis
from render_agent.report.sentences.contrasts import contrasts
from render_agent.score.intervals import ratio
from render_agent.score.questions import is_scorable, score_answer
from render_agent.score.terms import Term, summarize_terms
from render_agent.tasks.question_types import sort_types, type_label
from render_agent.util.console import PlainTable

ALWAYS_SHOWN = JUDGED[:4]  # causes with a column in the table even if no question has them

Judged = tuple[QuestionState, Diagnosis, BeliefDiagnosis]  # a question that was probed
Part = tuple[float, float, str]  # contributions to the numerator and denominator of a ratio; scene


def summarize_diagnoses(
    states: Sequence[QuestionState],
    diagnoses: Mapping[str, Diagnosis],
    size: tuple[int, int],  # width and height of the images in pixels
) -> dict[str, Any]:
    """Summarize the diagnoses of questions: over `all`, by type in `types`, `contrasts`, `beliefs`.

    `causes` counts questions by cause. `seen` has the answers and the share of right ones, by whether all named objects were
    seen clearly. `coverage` is the mean share of visible surface by turn. `premature`, `blocked`, `returns` and `repairs` are
    totals; `metres` and `degrees` are means per question.
    """
    states = [state for state in states if state.id in diagnoses]
    by_type: dict[str, list[Diagnosis]] = {}
    for state in states:
        by_type.setdefault(state.question.type, []).append(diagnoses[state.id])
    scenes = {state.id: (state.question.dataset, state.question.scene) for state in states}
    figures = {
        "all": _figures([diagnosis for group in by_type.values() for diagnosis in group]),
        "types": {name: _figures(group) for name, group in by_type.items()},
        "contrasts": contrasts([diagnoses[state.id] for state in states], scenes),
    }
    probed_rows = ((state, diagnoses[state.id], diagnoses[state.id].belief) for state in states)
    belief_rows = [(s, d, belief) for s, d, belief in probed_rows if belief is not None]
    return figures | ({"beliefs": _belief_figures(belief_rows, size)} if belief_rows else {})


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


def _belief_figures(rows: Sequence[Judged], size: tuple[int, int]) -> dict[str, Any]:
    """Return the agreement of beliefs with visibility, and of answers with beliefs.

    `seen_found` is the percentage of clearly seen named objects on the last map, by turn in `turns`; `follows` that of answers
    that agree with the one implied by the last map. `answer` and `own_answer` are mean scores of given and implied answers.
    """
    turns = max((probe.turn for *_, belief in rows for probe in belief.probes), default=-1) + 1
    scenes = [(belief, state, state.question.scene) for state, _, belief in rows]
    answer_scores = [
        (belief.worth, score_answer(state.question, state.answer_text), scene)
        for belief, state, scene in scenes
        if belief.worth is not None and is_scorable(state.question)
    ]
    return {
        "seen_found": _ratio(_seen_found(rows, size, turns)),
        "turns": [
            {"turn": turn, "seen_found": _ratio(_seen_found(rows, size, turn))}
            for turn in range(turns)
        ],
        "follows": _ratio((b.follows, 1, scene) for b, _, scene in scenes if b.follows is not None),
        "own_answer": _ratio(
            (implied_score, 1, scene) for implied_score, _, scene in answer_scores
        ),
        "answer": _ratio((given_score, 1, scene) for _, given_score, scene in answer_scores),
        "own_answer_gain": _gain(answer_scores),
    }


def _gain(answer_scores: Sequence[tuple[float, float, str]]) -> dict[str, Any] | None:
    """Return the gain of implied over given answers, from (implied, given, scene) per question."""
    gains = [implied_score - given_score for implied_score, given_score, _ in answer_scores]
    estimate = ratio(gains, [scene for *_, scene in answer_scores])
    if estimate is None:
        return None
    return {"value": 100 * float(estimate.mean), "p": estimate.interval_and_p()[1], "n": len(gains)}


def _ratio(parts: Iterator[Part] | Sequence[Part]) -> dict[str, Any] | None:
    return summarize_terms([Term(scene, top, bottom) for top, bottom, scene in parts if bottom])


def seen_by(diagnosis: Diagnosis, size: tuple[int, int], turn: int) -> frozenset[tuple[str, int]]:
    """Return (category, number) of the named boxes seen clearly up to a turn."""
    return frozenset(
        (diagnosis.boxes[sighting.box].category, diagnosis.boxes[sighting.box].number)
        for turn_diagnosis in diagnosis.turns
        if turn_diagnosis.turn <= turn
        for sighting in turn_diagnosis.sightings
        if sighting.is_clear(size)
    )


def _on_map(probe: ScoredProbe) -> frozenset[tuple[str, int]] | None:
    """Return the boxes found on the map of a probe; None if it has no map."""
    if probe.score is None or probe.score.matching is None:
        return None
    return probe.score.matching.found


def _seen_found(rows: Sequence[Judged], size: tuple[int, int], turn: int) -> Iterator[Part]:
    """Yield, for each question's last probe up to a turn, the number of clearly seen boxes that are on its map."""
    for state, diagnosis, belief in rows:
        probes = [probe for probe in belief.probes if probe.turn <= turn]
        if probes and (on_map := _on_map(probes[-1])) is not None:
            seen_boxes = seen_by(diagnosis, size, probes[-1].turn)
            yield len(seen_boxes & on_map), len(seen_boxes), state.question.scene


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
