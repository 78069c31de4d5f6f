"""What a model does about a change: the figures of pairs of answers, each with its interval over scenes.

A pair is two answers to the same question, of rooms or in words that differ in one thing. Where the right answer
differs too, the model should follow; where it does not, its answer should stay (counterfactual and invariance tests,
Ribeiro et al. 2020, CheckList; Gardner et al. 2020, contrast sets).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from render_agent.dialogue.state import SCORED, QuestionState, split_counterparts
from render_agent.score.intervals import add_holm, ratio
from render_agent.score.metrics import Metric
from render_agent.score.questions import metric_of
from render_agent.score.summary import percent
from render_agent.tasks.counterfactual.pairs import left_out
from render_agent.util.numbers import is_number


@dataclass(frozen=True, slots=True)
class Pair:
    """The answers to a question and to its counterpart, both in the letters and the unit of the first.

    asked: the change. must: whether the right answer differs. answers, truths: of the question, then of its
    counterpart; None is no answer. metric: of both. slack: by how much numbers may differ because of how they are rounded.
    """

    question_id: str
    counterpart_id: str
    asked: str
    type: str
    dataset: str
    scene: str
    must: bool
    answers: tuple[str | None, str | None]
    truths: tuple[str, str]
    metric: Metric
    slack: float = 0.0

    @property
    def scores(self) -> tuple[float, float]:
        """The scores of both answers, 0 … 1."""
        first, second = (
            0.0 if answer is None else self.metric.score(answer, (truth,))
            for answer, truth in zip(self.answers, self.truths, strict=True)
        )
        return first, second

    @property
    def right(self) -> tuple[bool, bool]:
        """Whether each answer is right."""
        first, second = (
            self.metric.is_right(answer, truth) or self._near(answer, truth)
            for answer, truth in zip(self.answers, self.truths, strict=True)
        )
        return first, second

    @property
    def same(self) -> bool:
        """Whether both answers are the same: one scores full marks where the other is the truth."""
        first, second = self.answers
        if first is None or second is None:
            return False
        return self.metric.score(second, (first,)) == 1 or self._near(first, second)

    @property
    def answered(self) -> bool:
        """Whether there are two answers."""
        return None not in self.answers

    def _near(self, answer: str | None, other: str) -> bool:
        if not self.slack or answer is None or not (is_number(answer) and is_number(other)):
            return False
        return abs(float(answer) - float(other)) <= self.slack


def _must(pair: Pair) -> bool:
    return pair.must


def _must_not(pair: Pair) -> bool:
    return not pair.must


ROWS: Mapping[str, tuple[Callable[[Pair], bool], Callable[[Pair], bool]]] = {
    "both_right": (lambda pair: all(pair.right), lambda pair: True),
    "follows": (lambda pair: pair.right[1] and not pair.same, _must),
    "keeps": (lambda pair: pair.same, _must),
    "stays": (lambda pair: pair.same, _must_not),
    "strays": (lambda pair: pair.answered and not pair.same, _must_not),
}
"""Every row: what is counted, and of which pairs."""

WORDS = {
    "both_right": "both answers are right",
    "follows": "must change: becomes the right one",
    "keeps": "must change: stays what it was",
    "stays": "must not change: stays what it was",
    "strays": "must not change: becomes another",
}
"""What the rows are called where a person reads them."""


def verdict(pair: Pair) -> str:
    """Classify a pair: a row of ROWS, `unanswered`, or `other` where a new answer is not the right one."""
    if not pair.answered:
        return "unanswered"
    names = ("follows", "keeps") if pair.must else ("stays", "strays")
    return next((name for name in names if ROWS[name][0](pair)), "other")


def causal_figures(pairs: Sequence[Pair]) -> dict[str, Any]:
    """Return the figures of all pairs, of every change and of every type, in percent."""
    by_change = {name: part(_pairs_with(pairs, "asked", name)) for name in _values(pairs, "asked")}
    add_holm([entry["difference"] for entry in by_change.values()])
    return {
        **part(pairs),
        "changes": by_change,
        "types": {name: part(_pairs_with(pairs, "type", name)) for name in _values(pairs, "type")},
    }


def part(pairs: Sequence[Pair]) -> dict[str, Any]:
    """Return the figures of some pairs.

    n: pairs. must: those whose right answer differs. unanswered: those that lack an answer. Every row of ROWS: its
    `share` of the pairs that it is of, in percent, its `n` and its 95 % `interval` over scenes. `original`,
    `changed`: the mean score of the questions and of their counterparts. `difference`: the second less the first in
    points, `interval` and `p`, paired.
    """
    shares = {}
    for name, (counts, of) in ROWS.items():
        own = [pair for pair in pairs if of(pair)]
        estimate = ratio([float(counts(pair)) for pair in own], [_scene(pair) for pair in own])
        shares[name] = {
            "share": None if estimate is None else percent(float(estimate.mean)),
            "n": len(own),
            "interval": None if estimate is None else estimate.interval(share=True),
        }
    scores = np.array([pair.scores for pair in pairs]).reshape(-1, 2)
    apart = ratio(scores[:, 1] - scores[:, 0], [_scene(pair) for pair in pairs])
    interval, p = (None, None) if apart is None else apart.interval_and_p()
    return {
        "n": len(pairs),
        "must": sum(pair.must for pair in pairs),
        "unanswered": sum(not pair.answered for pair in pairs),
        **shares,
        "original": _mean(scores[:, 0]),
        "changed": _mean(scores[:, 1]),
        "difference": {
            "points": None if apart is None else 100 * float(apart.mean),
            "interval": interval,
            "p": p,
        },
    }  # fmt: skip


def _scene(pair: Pair) -> tuple[str, str]:
    return pair.dataset, pair.scene


def _mean(scores: Any) -> float | None:
    return 100 * float(scores.mean()) if len(scores) else None


def _pairs_with(pairs: Iterable[Pair], name: str, value: str) -> list[Pair]:
    return [pair for pair in pairs if getattr(pair, name) == value]


def _values(pairs: Iterable[Pair], name: str) -> list[str]:
    return list(dict.fromkeys(getattr(pair, name) for pair in pairs))


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
