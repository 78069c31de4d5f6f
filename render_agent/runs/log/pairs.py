"""The pairs of a run: what was answered to questions and to their counterparts, and what comes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from render_agent.dialogue.state import SCORED, QuestionState, split_counterparts
from render_agent.score.causal import Pair, causal_figures
from render_agent.score.questions import metric_of
from render_agent.tasks.counterfactual.pairs import left_out


def pair_of(first: QuestionState, second: QuestionState) -> Pair | None:
    """Return the pair of a question and its counterpart, None where one of them is not done.

    ValueError where the second is no counterpart.
    """
    question, change = second.question, second.question.change
    if change is None:
        raise ValueError(f"question {second.id} is the counterpart of none")
    if not {first.status, second.status} <= set(SCORED):
        return None
    truth = question.truth or ""
    return Pair(
        first.id,
        second.id,
        change.asked,
        question.type,
        question.dataset,
        change.scene,
        change.must,
        (first.answer, change.as_before(second.answer)),
        (change.before, change.as_before(truth) or truth),
        metric_of(question),
        slack=0.0 if change.factor == 1 else _step(change.before) + change.factor * _step(truth),
    )


def pairs_of(states: Sequence[QuestionState]) -> list[Pair]:
    """Return the pairs of a run whose questions are both done, in its order."""
    own, counterparts = split_counterparts(states)
    known = {state.id: state for state in own}
    pairs = (
        pair_of(known[second.change.of], second)
        for second in counterparts
        if second.change is not None and second.change.of in known
    )
    return [pair for pair in pairs if pair is not None]


def causal_results(states: Sequence[QuestionState]) -> Mapping[str, Any] | None:
    """Return the entry `causal` of `results.json`, None for a run without counterparts.

    left_out: by change, how many questions have no counterpart, by reason.
    """
    if not split_counterparts(states)[1]:
        return None
    reasons: dict[str, dict[str, int]] = {}
    for (change, reason), number in left_out([state.question for state in states]).items():
        reasons.setdefault(change, {})[reason] = number
    return {**causal_figures(pairs_of(states)), "left_out": reasons}


def _step(number: str) -> float:
    """Return half of the last place in which a number is written: what rounding may have taken off."""
    return 0.5 * 10.0 ** -len(number.partition(".")[2])
