"""What a comparison is made of: two or more runs over the same questions, set against the first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from string import ascii_uppercase
from typing import Any

from render_agent.errors import UsageError
from render_agent.report.pages.data import ReportData
from render_agent.report.pages.words import outcome
from render_agent.score.comparison import Row
from render_agent.score.tables import took

MOST_RUNS = len(ascii_uppercase)
"""So many runs can be compared at once: each has a letter."""


@dataclass(frozen=True)
class ComparedRun:
    """One run of a comparison, and the letter by which the pages call it.

    warnings: why it is not comparable with the first.
    """

    letter: str
    report: ReportData
    warnings: Sequence[str] = ()

    @property
    def what(self) -> str:
        """What it ran, in short."""
        config = self.report.config
        words = [config.model_name, f"views {config.views}"]
        if config.picture_stress.note:
            words.append(f"pictures {config.pictures}")
        if config.turn_agent.chooses:
            words.append(config.agent_words)
        return ", ".join(words)

    @property
    def took(self) -> str:
        """What a question took on average."""
        work = self.report.results["totals"]["per_question"]
        return took(work) if work else "–"


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


@dataclass(frozen=True)
class Comparison:
    """Two or more runs; pairs: of every run but the first what `comparison.compare` says of it."""

    runs: Sequence[ComparedRun]
    pairs: Sequence[Mapping[str, Any]]

    @property
    def name(self) -> str:
        """What the pages are called."""
        return " against ".join(run.report.name for run in self.runs)

    @cached_property
    def changes(self) -> list[Change]:
        """The questions that changed sides between any two runs, in the order of the first run."""
        changes = []
        for state in self.runs[0].report.states:
            rows = tuple(_scored(run.report.rows.get(state.id)) for run in self.runs)
            change = Change(state.id, state.question.text, rows)
            if {"right", "wrong"} <= set(change.sides):
                changes.append(change)
        return changes

    @property
    def frame(self) -> dict[str, Any]:
        """What `base.html` wants, apart from `root`."""
        stamps = _with_letters({run.letter: run.report.stamps for run in self.runs}) + [
            f"NOT COMPARABLE, {run.letter}: {why}" for run in self.runs for why in run.warnings
        ]
        notes = _with_letters({run.letter: run.report.notes for run in self.runs})
        return {"name": self.name, "stamps": stamps, "notes": notes}


def compared_runs(
    reports: Sequence[ReportData], warnings: Sequence[Sequence[str]]
) -> list[ComparedRun]:
    """Return the runs with their letters; warnings: of each. UsageError where there are too many."""
    if len(reports) > MOST_RUNS:
        raise UsageError(f"at most {MOST_RUNS} runs can be compared at once, not {len(reports)}")
    return [
        ComparedRun(letter, report, why)
        for letter, report, why in zip(ascii_uppercase, reports, warnings, strict=False)
    ]


def _with_letters(texts: Mapping[str, Sequence[str]]) -> list[str]:
    """Return each text once, behind the letters of the runs of which it is told."""
    letters: dict[str, list[str]] = {}
    for letter, own in texts.items():
        for text in own:
            letters.setdefault(text, []).append(letter)
    return [f"{', '.join(runs)}: {text}" for text, runs in letters.items()]


def _scored(row: Row | None) -> Row | None:
    return None if row is None or row["score"] is None else row
