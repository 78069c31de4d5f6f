"""What the plots of a run show, counted from its turns and diagnoses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from render_agent.analysis.diagnosis.model import Cause
from render_agent.analysis.diagnosis.summary import JUDGED
from render_agent.analysis.report.data import ReportData
from render_agent.analysis.report.words import outcome
from render_agent.dialogue.state import QuestionState
from render_agent.score.official import TYPES

QUANTILE = 1.959964
"""Of the normal distribution, for 95 %."""

ALL_TYPES = "all types"

MOST_BARS = 300
"""So many marks a curve over the whole log has at the most."""


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean and its 95 % interval, over `n` questions; no interval where there are too few."""

    n: int
    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class TurnCost:
    """What all questions spent in the turn of one number: seconds, tokens, and how many took it.

    tried: pictures drawn to choose a move. shown: the others that were drawn.
    """

    turn: int
    questions: int
    rendering: float
    waiting: float
    generating: float
    read: int
    cached: int
    written: int
    shown: int
    tried: int


def wilson(right: int, n: int) -> Mean:
    """Return a share with Wilson's interval, 0 to 1, of questions taken as independent."""
    if not n:
        return Mean(0, 0.0)
    share, squared = right / n, QUANTILE**2
    middle = (share + squared / (2 * n)) / (1 + squared / n)
    half = QUANTILE / (1 + squared / n) * sqrt(share * (1 - share) / n + squared / (4 * n * n))
    return Mean(n, share, max(0.0, middle - half), min(1.0, middle + half))


def mean(values: Sequence[float]) -> Mean:
    """Return a mean with its normal interval, of values taken as independent."""
    n = len(values)
    if not n:
        return Mean(0, 0.0)
    value = float(np.mean(values))
    if n < 3:
        return Mean(n, value)
    half = QUANTILE * float(np.std(values, ddof=1)) / sqrt(n)
    return Mean(n, value, value - half, value + half)


def by_turns_used(report: ReportData) -> dict[int, Counter[str]]:
    """Return how many questions were right and wrong, by the number of turns they used."""
    found: dict[int, Counter[str]] = {}
    for row in report.rows.values():
        if row["score"] is not None:
            found.setdefault(row["turns"], Counter())[outcome(row)] += 1
    return dict(sorted(found.items()))


def coverage_by_turn(report: ReportData) -> dict[str, list[Mean]]:
    """Return the mean coverage after every turn of the questions that were right, and wrong.

    A question that has ended keeps what it had seen, so that every point is over the same questions.
    Empty where no coverage is known.
    """
    curves: dict[str, list[list[float]]] = {"right": [], "wrong": []}
    for question_id, found in report.diagnoses.items():
        seen = [turn.coverage for turn in found.turns if turn.coverage is not None]
        row = report.rows.get(question_id)
        if row is not None and seen and (side := outcome(row)) in curves:
            curves[side].append(seen)
    longest = max((len(seen) for side in curves.values() for seen in side), default=0)
    return {
        side: [
            mean([seen[min(turn, len(seen) - 1)] for seen in questions]) for turn in range(longest)
        ]
        for side, questions in curves.items()
        if questions
    }


def causes_by_type(report: ReportData) -> dict[str, Counter[str]]:
    """Return how many questions of every type have which cause, known types first."""
    found: dict[str, Counter[str]] = {}
    for question_id, diagnosis in report.diagnoses.items():
        if question_id in report.rows:
            kind = report.rows[question_id]["type"]
            found.setdefault(kind, Counter())[str(diagnosis.cause)] += 1
    return {kind: found[kind] for kind in in_order(found)}


def right_when_seen(report: ReportData) -> dict[str, tuple[Mean, Mean]]:
    """Return the share of right questions where all that they are about was seen well, and where not.

    By type, after all of them together; over questions whose answers were read and of which it can be
    told, as `seen` of a diagnosis' summary has them.
    """
    counted: dict[str, dict[bool, Counter[str]]] = {}
    for question_id, found in report.diagnoses.items():
        row = report.rows.get(question_id)
        if row is None or found.shown is None or found.cause not in JUDGED:
            continue
        for kind in (ALL_TYPES, row["type"]):
            sides = counted.setdefault(kind, {True: Counter(), False: Counter()})
            sides[found.shown]["right" if found.cause is Cause.RIGHT else "wrong"] += 1
    return {
        kind: (
            wilson(counted[kind][True]["right"], counted[kind][True].total()),
            wilson(counted[kind][False]["right"], counted[kind][False].total()),
        )
        for kind in [*counted][:1] + in_order(set(counted) - {ALL_TYPES})
    }


def in_order(types: Iterable[str]) -> list[str]:
    """Return some types, those of VSI-Bench first and in its order."""
    types = set(types)
    return [*(kind for kind in TYPES if kind in types), *sorted(types.difference(TYPES))]


def cost_by_turn(report: ReportData) -> list[TurnCost]:
    """Return what the turns of every number cost; a turn has its share of its batch's time."""
    longest = max((len(state.turns) for state in report.states), default=0)
    drawn = [pictures_by_turn(state) for state in report.states]
    costs = []
    for number in range(longest):
        turns = [state.turns[number] for state in report.states if len(state.turns) > number]
        cached = sum(turn.tokens.cached for turn in turns)
        costs.append(
            TurnCost(
                number,
                len(turns),
                sum(turn.seconds.rendering for turn in turns),
                sum(turn.seconds.waiting for turn in turns),
                sum(turn.seconds.generating / turn.batch_size for turn in turns),
                sum(turn.tokens.prompt for turn in turns) - cached,
                cached,
                sum(turn.tokens.reply for turn in turns),
                sum(counts[number][0] for counts in drawn if len(counts) > number),
                sum(counts[number][1] for counts in drawn if len(counts) > number),
            )
        )
    return costs


def pictures_by_turn(state: QuestionState) -> list[tuple[int, int]]:
    """Return how many pictures every turn of a question drew to show them, and how many to choose."""
    known: set[str] = set()
    found = []
    for turn in state.turns:
        shown = {view.file for view in turn.views} - known
        tried = turn.drawn - known - shown
        known |= turn.drawn
        found.append((len(shown), len(tried)))
    return found


def batches_over_time(report: ReportData) -> list[tuple[str, int, float]]:
    """Return phase, place in the log of the last turn, and mean size of batch of consecutive turns.

    A run of turns of one phase becomes so many pieces that there are at most MOST_BARS and a few.
    """
    piece = max(1, -(-len(report.batches) // MOST_BARS))
    found: list[tuple[str, int, float]] = []
    sizes: list[int] = []
    for place, (phase, size) in enumerate(report.batches, start=1):
        sizes.append(size)
        after = report.batches[place][0] if place < len(report.batches) else None
        if len(sizes) == piece or after != phase:
            found.append((phase, place, sum(sizes) / len(sizes)))
            sizes = []
    return found
