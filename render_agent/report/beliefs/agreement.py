"""Agreement of beliefs with visibility, and of answers with beliefs: figures and sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from render_agent.dialogue.state import QuestionState
from render_agent.parts.beliefs.scored_probe import ScoredProbe
from render_agent.report.beliefs.diagnosis import BeliefDiagnosis
from render_agent.report.diagnosis.model import Diagnosis
from render_agent.report.sentences.contrasts import describe_difference
from render_agent.score.intervals import ratio
from render_agent.score.questions import is_scorable, score_answer
from render_agent.score.terms import Term, summarize_terms
from render_agent.util.display import count_noun

Judged = tuple[QuestionState, Diagnosis, BeliefDiagnosis]  # a question that was probed
Part = tuple[float, float, str]  # contributions to the numerator and denominator of a ratio; scene


def belief_agreement(rows: Sequence[Judged], size: tuple[int, int]) -> dict[str, Any]:
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


def agreement_sentences(beliefs: Mapping[str, Any]) -> Iterator[str]:
    """Yield the sentences about the figures of `belief_agreement`."""
    if on_maps := beliefs["seen_found"]:
        yield f"{on_maps['value']:.0f} % of {on_maps['n']:,} clearly visible objects are on the last maps."
    if implied_scores := beliefs["own_answer"]:
        yield (
            f"The answers implied by the last maps score {implied_scores['value']:.1f}; the given answers score"
            f" {beliefs['answer']['value']:.1f} ({count_noun(implied_scores['n'], 'question')};"
            f" {describe_difference(beliefs['own_answer_gain']['p'])})."
        )
