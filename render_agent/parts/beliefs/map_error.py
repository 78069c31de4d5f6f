"""Reward term for the believed map."""

from __future__ import annotations

from render_agent.dialogue.question import Question
from render_agent.dialogue.turn import Turn
from render_agent.parts.beliefs.matching import RADIUS_METRES
from render_agent.parts.beliefs.scored_probe import score_probe
from render_agent.tasks.ground_truth import Facts
from render_agent.tasks.question_types import named_categories


def map_error(question: Question, turn: Turn, facts: Facts) -> float:
    """Return the mean distance error of the named objects on the believed map, in units of the matching radius."""
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
