"""Which questions of which runs are handed on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from render_agent.config import RunConfig
from render_agent.errors import UsageError
from render_agent.run_log.folder import RunFolder
from render_agent.run_log.reading import read_states
from render_agent.run_log.results import row
from render_agent.state import QuestionState


@dataclass(frozen=True, slots=True)
class Choice:
    """What is asked for: ids and types of questions, any where empty, and a least score (0 to 1)."""

    ids: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    least_score: float | None = None

    def takes(self, entry: dict[str, Any]) -> bool:
        """Return whether a row of the results is asked for."""
        if self.least_score is not None and (
            entry["score"] is None or entry["score"] < self.least_score
        ):
            return False
        return (not self.ids or entry["question_id"] in self.ids) and (
            not self.types or entry["type"] in self.types
        )


@dataclass(frozen=True)
class ChosenRun:
    """A run and those of its questions that are asked for, each with its row of the results."""

    folder: RunFolder
    config: RunConfig
    states: list[QuestionState] = field(repr=False)
    rows: list[dict[str, Any]] = field(repr=False)

    @property
    def name(self) -> str:
        """The run's name."""
        return self.folder.name

    @property
    def model(self) -> str:
        """The model, as the run recorded it."""
        return str(self.folder.record["engine"]["model"])


def choose_runs(folders: Sequence[RunFolder], choice: Choice) -> list[ChosenRun]:
    """Return the chosen questions of every run, in the order of the run.

    UsageError where an id or a type is in none of the runs. RunLogError where a log is damaged.
    """
    everything = [ChosenRun(folder, folder.config, read_states(folder), []) for folder in folders]
    questions = [state.question for run in everything for state in run.states]
    for asked, known, kind in (
        (choice.ids, {question.id for question in questions}, "question with the id"),
        (choice.types, {question.type for question in questions}, "question of the type"),
    ):
        if unknown := [name for name in asked if name not in known]:
            names = ", ".join(run.name for run in everything)
            raise UsageError(f"there is no {kind} {unknown[0]!r} in {names}")
    return [_chosen(run, choice) for run in everything]


def _chosen(run: ChosenRun, choice: Choice) -> ChosenRun:
    pairs = [(state, entry) for state in run.states if choice.takes(entry := row(state))]
    states, rows = [state for state, _ in pairs], [entry for _, entry in pairs]
    return ChosenRun(run.folder, run.config, states, rows)
