"""The questions that changed sides between runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_uppercase

from render_agent.report.pages.words import outcome
from render_agent.runs.log.row import Row
from render_agent.runs.read import RunData


@dataclass(frozen=True, slots=True)
class Change:
    """A question that is right in one run and wrong in another.

    rows: of the results of every run; None where a run does not have it or has not scored it.
    """

    question_id: str
    text: str
    rows: tuple[Row | None, ...]

    @property
    def first(self) -> Row:
        """The row of the first run that has it."""
        return next(row for row in self.rows if row is not None)

    @property
    def sides(self) -> tuple[str, ...]:
        """`right`, `wrong` or `open` for every run."""
        return tuple(outcome(row) for row in self.rows)

    @property
    def change(self) -> str:
        """How it changed, in words: gained or lost between two runs, else in which runs it is right."""
        if len(self.rows) == 2:
            return "gained" if self.sides[1] == "right" else "lost"
        right = (
            letter
            for letter, side in zip(ascii_uppercase, self.sides, strict=False)
            if side == "right"
        )
        return f"right in {', '.join(right)}"


def changed_questions(runs: Sequence[RunData]) -> list[Change]:
    """Return the questions that changed sides between any two runs, in the order of the first run."""
    changes = []
    for state in runs[0].states:
        rows = tuple(_scored(run.rows.get(state.id)) for run in runs)
        change = Change(state.id, state.question.text, rows)
        if {"right", "wrong"} <= set(change.sides):
            changes.append(change)
    return changes


def _scored(row: Row | None) -> Row | None:
    return None if row is None or row.score is None else row
