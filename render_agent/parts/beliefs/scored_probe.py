"""Scores the probes of a question against the object boxes of its scene."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from render_agent.dialogue.question import Question
from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.turn import Probe, Turn
from render_agent.parts.beliefs.map_score import MapScore, score_map
from render_agent.parts.beliefs.matching import RADIUS_METRES, Boxes
from render_agent.parts.beliefs.own_answer import own_answer
from render_agent.score.questions import is_scorable, score_answer
from render_agent.tasks.ground_truth import Facts, SceneFrame, place_facts
from render_agent.tasks.question_types import named_categories


@dataclass(frozen=True, slots=True)
class ScoredProbe:
    """One probe and its scores."""

    turn: int
    """Turn after which the model was probed."""
    probe: Probe
    score: MapScore | None
    """None if the reply was unreadable."""
    answer: str | None = None
    """Answer implied by the map, if any."""
    worth: float | None = None
    """Score of `answer`, 0 to 1; None without an implied answer or ground truth."""


def named_truth(
    question: Question, facts: Facts, frame: SceneFrame
) -> tuple[Boxes, dict[str, int]]:
    """Return the true boxes and counts of the categories that a question names, in the frame shown to the model."""
    boxes_by_label = {
        label.lower(): boxes for label, boxes in place_facts(facts, frame).boxes.items()
    }
    counts = {label.lower(): number for label, number in facts.counts.items()}
    names = [name for name in named_categories(question) if name in boxes_by_label]
    return {name: boxes_by_label[name] for name in names}, {
        name: counts.get(name, len(boxes_by_label[name])) for name in names
    }


def score_probes(
    state: QuestionState, boxes: Boxes, counts: Mapping[str, int], truth: str | None
) -> list[ScoredProbe]:
    """Score all probes of a question against the boxes and counts of the categories that it names."""
    return [
        score_probe(state.question, turn, turn.probe, boxes, counts, truth)
        for turn in state.turns
        if turn.probe is not None
    ]


def score_probe(
    question: Question,
    turn: Turn,
    probe: Probe,
    boxes: Boxes,
    counts: Mapping[str, int],
    truth: str | None,
) -> ScoredProbe:
    """Score the probe after a turn; `truth` is the correct answer for the room as shown to the model."""
    belief = probe.parsed_belief
    if belief is None:
        return ScoredProbe(turn.number, probe, None)
    answer = own_answer(question, belief, boxes)
    as_shown = replace(question, ground_truth=truth)
    has_worth = answer is not None and is_scorable(as_shown)
    return ScoredProbe(
        turn.number,
        probe,
        score_map(belief, boxes, counts, turn.camera),
        answer,
        score_answer(as_shown, answer) if has_worth else None,
    )


def probes_of(
    state: QuestionState, facts: Mapping[str, Facts], truths: Mapping[str, str | None]
) -> list[ScoredProbe]:
    """Score the probes of a question; the result is empty if its scene has no known boxes."""
    frame = next((turn.probe for turn in state.turns if turn.probe), None)
    if frame is None or state.question.scene not in facts:
        return []
    question = state.question
    boxes, counts = named_truth(question, facts[question.scene], frame)
    return score_probes(state, boxes, counts, truths.get(state.id))


def map_error(question: Question, turn: Turn, facts: Facts) -> float:
    """Return the reward term of the believed map: the mean distance error of the named objects, in units of the matching
    radius.
    """
    if turn.probe is None:
        return 0.0
    names = named_categories(question)
    boxes = {label.lower(): group for label, group in facts.boxes.items() if label.lower() in names}
    num_true = sum(map(len, boxes.values()))
    if not num_true:
        return 0.0
    score = score_probe(question, turn, turn.probe, boxes, {}, None).score
    pairs = () if score is None or score.matching is None else score.matching.pairs
    num_missed = num_true - len(pairs)
    return (sum(pair.metres for pair in pairs) / RADIUS_METRES + num_missed) / num_true
