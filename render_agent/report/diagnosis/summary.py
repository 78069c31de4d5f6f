"""The summary of a run's diagnoses: figures and a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean as mean
from typing import Any

from rich.table import Table

from render_agent.dialogue.state import QuestionState, split_counterparts
from render_agent.report.diagnosis.model import BeliefDiagnosis, Cause, Diagnosis
from render_agent.score.beliefs.belief_figures import written
from render_agent.score.beliefs.scored_probe import ScoredProbe
from render_agent.score.intervals import ratio
from render_agent.score.questions import is_scorable, score_answer
from render_agent.util.console import plain_table

BY_BELIEFS = (Cause.PERCEPTION, Cause.MEMORY, Cause.REASONING)
"""The causes that only beliefs tell."""

JUDGED = (Cause.RIGHT, Cause.STOPPED_EARLY, Cause.NEVER_LOOKED, Cause.MISJUDGED, *BY_BELIEFS)
"""The causes of answers that can be set against what was seen."""

WRONG = (*JUDGED[1:], Cause.NO_ANSWER, Cause.UNKNOWN)
"""The causes of questions that are not right."""

ALWAYS_SHOWN = JUDGED[:4]
"""The causes that have a column even without any question."""

Judged = tuple[QuestionState, Diagnosis, BeliefDiagnosis]
"""A question that was asked for beliefs, with its diagnosis and what that says of them."""

Part = tuple[float, float, str]
"""What one question adds above and below the line of a ratio, and its scene."""


def summarize_diagnoses(
    states: Sequence[QuestionState],
    diagnoses: Mapping[str, Diagnosis],
    size: tuple[int, int],
) -> dict[str, Any]:
    """Return the figures of a run: `all` of them, those of each of its `types`, and its `beliefs` if it was probed.

    Each holds: `questions`; `causes`, questions by cause; `seen`, how many answers are right and wrong, and the
    percentage of right ones, if everything named had been seen well and if not; `coverage`, the mean share of the
    room's visible surface seen by each turn, a finished question keeping its last; `turns_to_see`, the mean number of
    turns until everything named was seen well; `premature`, `blocked`, `returns` and `repairs`, totals; `metres` and
    `degrees` per question. Counterparts count nowhere. size: of the pictures.
    """
    own = own_diagnoses(states, diagnoses)
    asked = [state for state in states if state.id in own]
    by_type: dict[str, list[Diagnosis]] = {}
    for state in asked:
        by_type.setdefault(state.question.type, []).append(own[state.id])
    figures = {
        "all": _figures([diagnosis for group in by_type.values() for diagnosis in group]),
        "types": {name: _figures(group) for name, group in by_type.items()},
    }
    probed = ((state, own[state.id], own[state.id].belief) for state in asked)
    judged = [(s, d, belief) for s, d, belief in probed if belief is not None]
    return figures | ({"beliefs": _belief_figures(judged, size)} if judged else {})


def own_diagnoses(
    states: Sequence[QuestionState], diagnoses: Mapping[str, Diagnosis]
) -> dict[str, Diagnosis]:
    """Return the diagnoses without those of counterparts, of which no figure is made."""
    own = (state.id for state in split_counterparts(states)[0])
    return {name: diagnoses[name] for name in own if name in diagnoses}


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


def _belief_figures(judged: Sequence[Judged], size: tuple[int, int]) -> dict[str, Any]:
    """Return how well beliefs follow what was seen, and answers the beliefs.

    `seen_found`: of the named objects that had been seen well by a probe, those on its map, in percent; in `turns` by
    turn. `follows`: answers that are what the last map answers. `answer` and `own_answer`: the mean official score of
    the answers that were given, and of those that follow from the last maps, over the questions that have both.
    """
    turns = max((probe.turn for *_, belief in judged for probe in belief.probes), default=-1) + 1
    scenes = [(belief, state, state.question.scene) for state, _, belief in judged]
    both = [
        (belief.worth, score_answer(state.question, state.answer), scene)
        for belief, state, scene in scenes
        if belief.worth is not None and is_scorable(state.question)
    ]
    return {
        "seen_found": _ratio(_seen_found(judged, size, turns)),
        "turns": [
            {"turn": turn, "seen_found": _ratio(_seen_found(judged, size, turn))}
            for turn in range(turns)
        ],
        "follows": _ratio((b.follows, 1, scene) for b, _, scene in scenes if b.follows is not None),
        "own_answer": _ratio((own, 1, scene) for own, _, scene in both),
        "answer": _ratio((answered, 1, scene) for _, answered, scene in both),
    }


def _ratio(parts: Iterator[Part] | Sequence[Part]) -> dict[str, Any] | None:
    kept = [part for part in parts if part[1]]
    if not kept:
        return None
    tops, bottoms, scenes = zip(*kept, strict=True)
    estimate = ratio(tops, scenes, bottoms)
    return None if estimate is None else written(estimate, int(sum(bottoms)), share=True)


def seen_by(diagnosis: Diagnosis, size: tuple[int, int], turn: int) -> frozenset[tuple[str, int]]:
    """Return the named boxes, by category and number, that a view up to a turn showed well."""
    return frozenset(
        (diagnosis.boxes[sighting.box].category, diagnosis.boxes[sighting.box].number)
        for own in diagnosis.turns
        if own.turn <= turn
        for sighting in own.sightings
        if sighting.well(size)
    )


def _on_map(probe: ScoredProbe) -> frozenset[tuple[str, int]] | None:
    """Return the boxes on a map, None if there is no map."""
    if probe.score is None or probe.score.matching is None:
        return None
    return probe.score.matching.found


def _seen_found(judged: Sequence[Judged], size: tuple[int, int], turn: int) -> Iterator[Part]:
    """Give of every question's last probe up to a turn the boxes seen well by then and those found."""
    for state, diagnosis, belief in judged:
        until = [probe for probe in belief.probes if probe.turn <= turn]
        if until and (on_map := _on_map(until[-1])) is not None:
            seen = seen_by(diagnosis, size, until[-1].turn)
            yield len(seen & on_map), len(seen), state.question.scene


def cause_table(figures: Mapping[str, Any]) -> Table:
    """Return the causes by type; figures: as `summarize_diagnoses` returns them."""
    everything = figures["all"]["causes"]
    shown = [c for c in Cause if c in ALWAYS_SHOWN or everything[str(c)]]
    table = plain_table("Why answers are right or wrong", "question type", "n", *map(str, shown))
    for name, own in sorted(figures["types"].items()):
        table.add_row(name.removeprefix("object_"), *_cells(own, shown))
    table.add_section()
    table.add_row("all", *_cells(figures["all"], shown))
    return table


def _cells(figures: Mapping[str, Any], shown: Sequence[Cause]) -> list[str]:
    counts = [figures["questions"], *(figures["causes"][str(cause)] for cause in shown)]
    return [f"{count:,}" for count in counts]
