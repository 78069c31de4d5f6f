"""Whether a model looks for evidence: views that could refute its answer, and answers before everything was seen."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from string import ascii_uppercase as LETTERS
from typing import Any

import numpy as np

from render_agent.dialogue.state import QuestionState
from render_agent.report.diagnosis.cause import first_clear_turns
from render_agent.report.diagnosis.diagnose import diagnose_run
from render_agent.report.diagnosis.model import Diagnosis
from render_agent.report.diagnosis.sufficiency import first_shown, saw_all_objects
from render_agent.report.sentences.contrasts import describe_difference
from render_agent.runs.read import RunData
from render_agent.scans.camera import Camera
from render_agent.score.dialogues.answering import answers_by_turn
from render_agent.score.intervals import add_holm, ratio
from render_agent.score.tables import format_signed
from render_agent.score.terms import Term, compare_terms
from render_agent.util.display import count_noun

# An object seen from a direction that differs by more than this from all earlier ones shows another side.
OTHER_SIDE_DEGREES = 45.0

LABELS = {
    "falsified": "views after an answer that could refute it (%)",
    "premature": "first answers before all named objects were seen (%)",
}

Size = tuple[int, int]  # width and height of images in pixels


def evidence_terms(
    states: Sequence[QuestionState], diagnoses: Mapping[str, Diagnosis], size: Size
) -> dict[str, list[Term]]:
    """Return the terms of every figure in LABELS, over scored questions with known boxes."""
    terms: dict[str, list[Term]] = {name: [] for name in LABELS}
    answers = answers_by_turn(states)
    for state in states:
        diagnosis = diagnoses.get(state.id)
        if state.id in answers and diagnosis is not None:
            scene = answers[state.id][0].scene
            views = refuting_views(state, diagnosis, size)
            terms["falsified"] += [Term(scene, could) for could in views]
            if (premature := is_premature(state, diagnosis, size)) is not None:
                terms["premature"].append(Term(scene, premature))
    return terms


def refuting_views(state: QuestionState, diagnosis: Diagnosis, size: Size) -> Iterator[bool]:
    """Yield for each view after the first answer whether it clearly shows a named object that was not clearly visible
    before, or another side of one.
    """
    answered = _first_answer(state)
    cameras = {view.number: view.camera for view in state.views}
    sides: dict[int, list[Any]] = {}  # box -> directions from which it was seen clearly
    for turn in diagnosis.turns:
        for number, sightings in groupby(turn.sightings, lambda sighting: sighting.view):
            camera, is_new = cameras[number], False
            for sighting in sightings:
                if sighting.is_clear(size) and isinstance(camera, Camera):
                    offset = np.subtract(camera.position, diagnosis.boxes[sighting.box].centre)
                    direction = offset / max(float(np.linalg.norm(offset)), 1e-9)
                    known = sides.setdefault(sighting.box, [])
                    is_new |= all(
                        float(other @ direction) < math.cos(math.radians(OTHER_SIDE_DEGREES))
                        for other in known
                    )
                    known.append(direction)
            if answered is not None and turn.turn > answered:
                yield is_new


def is_premature(state: QuestionState, diagnosis: Diagnosis, size: Size) -> bool | None:
    """Return whether the first answer came with turns left, before all named objects were clearly visible; None without
    an answer or known boxes.
    """
    answered = _first_answer(state)
    if answered is None or diagnosis.saw_all is None:
        return None
    when = {box: n for box, n in first_clear_turns(diagnosis.turns, size).items() if n <= answered}
    shown = first_shown(state.question, [box.category for box in diagnosis.boxes], when)
    coverage = diagnosis.turns[answered].coverage
    has_turns_left = answered + 1 < state.max_turns
    return has_turns_left and not saw_all_objects(state.question, shown, coverage)


def _first_answer(state: QuestionState) -> int | None:
    return next((turn.number for turn in state.turns if turn.answer is not None), None)


def commitment_cost(
    sides: Sequence[tuple[Sequence[QuestionState], Mapping[str, Diagnosis], Size]],
) -> dict[str, Any] | None:
    """Return the points that a premature first answer costs: the last answer to the same question in the run in which it
    was not premature, minus that in the run in which it was. None if no question differs.
    """
    premature, answers = [], []
    for states, diagnoses, size in sides:
        by_id = (
            (s.id, is_premature(s, diagnoses[s.id], size)) for s in states if s.id in diagnoses
        )
        premature.append({name: verdict for name, verdict in by_id if verdict is not None})
        answers.append({name: entries[-1] for name, entries in answers_by_turn(states).items()})
    costs = [
        (answers[a][name].scene, answers[1 - a][name].score - answers[a][name].score)
        for a in (0, 1)
        for name, verdict in premature[a].items()
        if verdict
        and premature[1 - a].get(name) is False
        and all(name in by_id for by_id in answers)
    ]
    estimate = ratio([cost for _, cost in costs], [scene for scene, _ in costs])
    if estimate is None:
        return None
    interval, p = estimate.interval_and_p()
    return {"value": 100 * float(estimate.mean), "interval": interval, "p": p, "n": len(costs)}


def compare_evidence(runs: Sequence[RunData], pairs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Add figures to the pairs whose models explore; return sentences about premature answers.

    Only the pages of a comparison have them, because they need the visibility in all views.
    """
    sentences = []
    for letter, run, pair in zip(LETTERS[1:], runs[1:], pairs, strict=False):
        if "answering" not in pair or not (runs[0].parts.free and run.parts.free):
            continue
        answered = [answers_by_turn(side.states).keys() for side in (runs[0], run)]
        shared = answered[0] & answered[1]
        sides = [
            ([s for s in side.states if s.id in shared], diagnose_run(side), side.config.image_size)
            for side in (runs[0], run)
        ]
        in_a, in_b = (evidence_terms(*side) for side in sides)
        entries = {name: compare_terms(in_a[name], in_b[name]) for name in in_a}
        pair["answering"].update({name: entry for name, entry in entries.items() if entry})
        if cost := commitment_cost(sides):
            sentences.append(
                f"On questions that only one of {LETTERS[0]} and {letter} answered before all named objects were seen, the"
                f" early answers score {format_signed(-cost['value'])} points ({count_noun(cost['n'], 'question')};"
                f" {describe_difference(cost['p'])})."
            )
    add_holm([entry for pair in pairs for entry in pair.get("answering", {}).values()])
    return sentences
