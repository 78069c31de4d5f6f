"""Counterfactual tests: how answers respond to a change of the room or the wording, with intervals over scenes.

A pair consists of two answers to the same question, before and after one change. If the correct answer changes, the
model's answer should change too; otherwise it should stay the same (invariance tests: Ribeiro et al. 2020, CheckList;
counterfactuals: Gardner et al. 2020, contrast sets).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from render_agent.dialogue.question import Change
from render_agent.dialogue.state import SCORED, QuestionState
from render_agent.parts.counterfactual import CHANGES
from render_agent.score.intervals import add_holm, ratio
from render_agent.score.metrics import Metric
from render_agent.score.questions import metric_of
from render_agent.score.summary import percent


@dataclass(frozen=True, slots=True)
class CounterpartPair:
    """Answers to a question and its counterpart in canonical form, both in the letters of the original question."""

    asked: str
    """Name of the change."""
    type: str
    scene: tuple[str, str]
    """Data set and name of the original scene."""
    must: bool
    """True if the correct answer changes."""
    answers: tuple[str | None, str | None]
    """Answers to the question and its counterpart; None if there is none."""
    truths: tuple[str, str]
    """Ground truth of the question and its counterpart."""
    metric: Metric

    @property
    def scores(self) -> tuple[float, float]:
        """Scores of both answers, 0 to 1."""
        original, counterpart = (
            0.0 if answer is None else self.metric.score(answer, (truth,))
            for answer, truth in zip(self.answers, self.truths, strict=True)
        )
        return original, counterpart

    @property
    def right(self) -> tuple[bool, bool]:
        """True for each answer that is correct."""
        original, counterpart = map(self.metric.is_correct, self.answers, self.truths)
        return original, counterpart

    @property
    def same(self) -> bool:
        """True if the answers agree: the second gets full marks with the first as the ground truth."""
        original, counterpart = self.answers
        if original is None or counterpart is None:
            return False
        return self.metric.score(counterpart, (original,)) == 1

    @property
    def answered(self) -> bool:
        """True if both questions were answered."""
        return None not in self.answers


# condition on a pair by outcome, and the value of `must` of the pairs that it applies to; None for all
ROWS: Mapping[str, tuple[Callable[[CounterpartPair], bool], bool | None]] = {
    "both_right": (lambda pair: all(pair.right), None),
    "follows": (lambda pair: pair.right[1] and not pair.same, True),
    "keeps": (lambda pair: pair.same, True),
    "stays": (lambda pair: pair.same, False),
    "strays": (lambda pair: pair.answered and not pair.same, False),
}

# labels of the outcomes in reports
OUTCOME_LABELS = {
    "both_right": "both answers correct",
    "follows": "should change, and became correct",
    "keeps": "should change, but did not",
    "stays": "should not change, and did not",
    "strays": "should not change, but did",
}


def classify_pair(pair: CounterpartPair) -> str:
    """Classify a pair: a key of ROWS, `unanswered`, or `other` if the answer changed but is incorrect."""
    if not pair.answered:
        return "unanswered"
    outcomes = (name for name, (holds, must) in ROWS.items() if must == pair.must and holds(pair))
    return next(outcomes, "other")


def causal_figures(pairs: Sequence[CounterpartPair]) -> dict[str, Any]:
    """Return the scores of all pairs, by change and by question type, in percent."""
    by_change = _figures_by(pairs, "asked")
    add_holm([entry["difference"] for entry in by_change.values()])
    return {**pair_figures(pairs), "changes": by_change, "types": _figures_by(pairs, "type")}


def parts_by_change(causal: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of `causal_figures` by change, preceded by the whole if there are several."""
    changes: dict[str, Any] = causal["changes"]
    return changes if len(changes) == 1 else {"all changes": causal, **changes}


def _figures_by(pairs: Sequence[CounterpartPair], name: str) -> dict[str, dict[str, Any]]:
    groups: dict[str, list[CounterpartPair]] = {}
    for pair in pairs:
        groups.setdefault(getattr(pair, name), []).append(pair)
    return {value: pair_figures(group) for value, group in groups.items()}


def pair_figures(pairs: Sequence[CounterpartPair]) -> dict[str, Any]:
    """Return the scores of some pairs.

    Of `n` pairs, `must` have an answer that changes and `unanswered` lack an answer. Each outcome of ROWS has `share` in
    percent, `n` and `interval` (95 %, over scenes). `original` and `changed` are mean scores; `difference` is changed
    minus original in points, paired, with `interval` and `p`.
    """
    shares = {}
    for name, (holds, must) in ROWS.items():
        applicable = [pair for pair in pairs if must in (None, pair.must)]
        estimate = ratio(
            [float(holds(pair)) for pair in applicable], [pair.scene for pair in applicable]
        )
        shares[name] = {
            "share": None if estimate is None else percent(float(estimate.mean)),
            "n": len(applicable),
            "interval": None if estimate is None else estimate.interval(share=True),
        }
    scores = np.array([pair.scores for pair in pairs]).reshape(-1, 2)
    difference = ratio(scores[:, 1] - scores[:, 0], [pair.scene for pair in pairs])
    interval, p = (None, None) if difference is None else difference.interval_and_p()
    return {
        "n": len(pairs),
        "must": sum(pair.must for pair in pairs),
        "unanswered": sum(not pair.answered for pair in pairs),
        **shares,
        "original": _mean(scores[:, 0]),
        "changed": _mean(scores[:, 1]),
        "difference": {
            "points": None if difference is None else 100 * float(difference.mean),
            "interval": interval,
            "p": p,
        },
    }  # fmt: skip


def _mean(scores: Any) -> float | None:
    return 100 * float(scores.mean()) if len(scores) else None


def make_pair(
    original: QuestionState, counterpart: QuestionState, change: Change
) -> CounterpartPair | None:
    """Pair a question with its counterpart; None if either is not done."""
    if not {original.status, counterpart.status} <= set(SCORED):
        return None
    question = counterpart.question
    truth = question.ground_truth or ""
    return CounterpartPair(
        change.kind,
        question.type,
        (question.dataset, change.scene),
        change.changes_answer,
        (original.answer, change.to_original(counterpart.answer)),
        (change.original_truth, change.to_original(truth) or truth),
        metric_of(question),
    )


def find_pairs(
    states: Sequence[QuestionState], counterparts: Sequence[QuestionState]
) -> list[CounterpartPair]:
    """Return all pairs in which both questions are done, in the order of the counterparts.

    Changes that only earlier versions supported are omitted.
    """
    by_id = {state.id: state for state in states}
    pairs = (
        make_pair(by_id[change.original_id], counterpart, change)
        for counterpart in counterparts
        if (change := counterpart.question.change) is not None
        and change.original_id in by_id
        and change.kind.partition(":")[0] in CHANGES
    )
    return [pair for pair in pairs if pair is not None]
