"""The pairs of a run: what was answered to questions and to their counterparts, and what comes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from render_agent.dialogue.state import SCORED, QuestionState
from render_agent.questions.counterfactual.pairs import left_out
from render_agent.score.causal import Pair, causal_figures

TOO_EARLY = "it was answered before the room changed"


def pair_of(first: QuestionState, second: QuestionState) -> Pair | None:
    """Return the pair of a question and its counterpart, None where one of them is not done, or `never_shown`.

    ValueError where the second is no counterpart.
    """
    question, change = second.question, second.question.change
    if change is None:
        raise ValueError(f"question {second.id} is the counterpart of none")
    if not {first.status, second.status} <= set(SCORED) or never_shown(second):
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
        slack=0.0 if change.factor == 1 else _step(change.before) + change.factor * _step(truth),
        midway=change.at > 0,
    )


def never_shown(state: QuestionState) -> bool:
    """Whether a dialogue was over before its room changed, so that nobody could follow."""
    change = state.question.change
    done = state.status in SCORED and not state.blind
    return change is not None and done and len(state.turns) <= change.at


def pairs_of(states: Sequence[QuestionState]) -> list[Pair]:
    """Return the pairs of a run whose questions are both done, in its order."""
    known = {state.id: state for state in states}
    second = [state for state in states if state.question.change is not None]
    pairs = (
        pair_of(known[state.question.change.of], state)
        for state in second
        if state.question.change is not None and state.question.change.of in known
    )
    return [pair for pair in pairs if pair is not None]


def causal_results(states: Sequence[QuestionState]) -> Mapping[str, Any] | None:
    """Return the entry `causal` of `results.json`, None for a run without counterparts.

    left_out: by change, how many questions have no counterpart, by reason.
    """
    if all(state.question.change is None for state in states):
        return None
    reasons: dict[str, dict[str, int]] = {}
    for (change, reason), number in left_out([state.question for state in states]).items():
        reasons.setdefault(change, {})[reason] = number
    for state in states:
        if state.question.change is not None and never_shown(state):
            early = reasons.setdefault(state.question.change.asked, {})
            early[TOO_EARLY] = early.get(TOO_EARLY, 0) + 1
    return {**causal_figures(pairs_of(states)), "left_out": reasons}


def _step(number: str) -> float:
    """Return half of the last place in which a number is written: what rounding may have taken off."""
    return 0.5 * 10.0 ** -len(number.partition(".")[2])
