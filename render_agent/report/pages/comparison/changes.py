"""Questions that score at least 50 % in one run and less in another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_uppercase

from render_agent.dialogue.question import Question
from render_agent.report.comparison.compare_runs import sides_of
from render_agent.report.sentences.labels import outcome_label
from render_agent.runs.log.row import Row
from render_agent.runs.read import RunData
from render_agent.score.comparison import differing_questions


@dataclass(frozen=True, slots=True)
class AnswerChange:
    """A question that scores at least 50 % in one run and less in another."""

    question: Question
    rows: tuple[Row | None, ...]
    """Row of the results of each run; None if the run has not scored the question."""

    @property
    def first(self) -> Row:
        """Row of the first run that has scored it."""
        return next(row for row in self.rows if row is not None)

    @property
    def sides(self) -> tuple[str, ...]:
        """`right`, `wrong` or `open` for each run."""
        return tuple(outcome_label(row) for row in self.rows)

    @property
    def change(self) -> str:
        """`gained` or `lost` for two runs, otherwise the runs in which it scores at least 50 %."""
        if len(self.rows) == 2:
            return "gained" if self.sides[1] == "right" else "lost"
        letters = (
            letter
            for letter, side in zip(ascii_uppercase, self.sides, strict=False)
            if side == "right"
        )
        return f"at least 50 % in {', '.join(letters)}"


def changed_questions(runs: Sequence[RunData]) -> list[AnswerChange]:
    """Return the questions that score at least 50 % in one run and less in another, in the order of the first run.

    A question that differs from that of the first run, or is about a different scan, counts as not scored.
    """
    changes = []
    reference, *other_sides = sides_of(runs)
    excluded = [(), *(set().union(*differing_questions(reference, side)) for side in other_sides)]
    for state in runs[0].states:
        rows = tuple(
            None if state.id in ids else _only_if_scored(run.rows.get(state.id))
            for run, ids in zip(runs, excluded, strict=True)
        )
        change = AnswerChange(state.question, rows)
        if {"right", "wrong"} <= set(change.sides):
            changes.append(change)
    return changes


def _only_if_scored(row: Row | None) -> Row | None:
    return None if row is None or row.score is None else row
