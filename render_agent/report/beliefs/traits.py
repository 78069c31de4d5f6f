"""Traits of answers that contradict, lose or follow the model's map."""

from __future__ import annotations

from render_agent.report.beliefs.diagnosis import belief_of
from render_agent.report.diagnosis.model import Diagnosis
from render_agent.report.sentences.contrasts import Trait
from render_agent.score.comparison import RIGHT


def _lost_right_map(diagnosis: Diagnosis) -> bool | None:
    """Return True if an earlier map implied the right answer and the last one does not."""
    belief = belief_of(diagnosis)
    if belief is None or belief.worth is None:
        return None
    earlier = any((probe.worth or 0.0) >= RIGHT for probe in belief.probes[:-1])
    return earlier and belief.worth < RIGHT


def _has_wrong_map(diagnosis: Diagnosis) -> bool | None:
    belief = belief_of(diagnosis)
    return None if belief is None or belief.worth is None else belief.worth < RIGHT


def _contradicts_map(diagnosis: Diagnosis) -> bool | None:
    belief = belief_of(diagnosis)
    return None if belief is None or belief.follows is None else not belief.follows


TRAITS = (
    Trait("wrong_map", "had a last map whose answer scores below 50 %", _has_wrong_map),
    Trait(
        "lost_map", "came after a map whose answer scores at least 50 % was lost", _lost_right_map
    ),
    Trait("contradiction", "contradicted the last map", _contradicts_map),
)
