"""Run parts: what an optional part of a run checks, asks after its turns, and adds to its results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from rich.console import Group

from render_agent import registry
from render_agent.score.tables import score_table, view_table
from render_agent.tasks.input_files import Choice

if TYPE_CHECKING:
    from render_agent.agents.agent import AfterTurn
    from render_agent.dialogue.question import Question
    from render_agent.dialogue.state import QuestionState
    from render_agent.dialogue.turn import Turn
    from render_agent.runs.build import Parts
    from render_agent.runs.read import RunData
    from render_agent.tasks.input_files import InputFile
    from render_agent.util.console import PlainTable


class RunPart(Choice):
    """What an optional part of a run does; nothing unless a subclass overrides it."""

    def refuse_conflicts(self, parts: Parts) -> None:
        """Raise UsageError if its options contradict others."""

    def questions(self, parts: Parts, questions: list[Question]) -> list[Question]:
        """Return the questions of a run, given those that its options select."""
        return questions

    def question_inputs(self, parts: Parts) -> Iterable[InputFile]:
        """Return the files that `questions` reads."""
        return ()

    def after_turn(self, parts: Parts) -> AfterTurn | None:
        """Return what is asked after each turn."""
        return None

    def results(
        self, run: RunData, states: Sequence[QuestionState], counterparts: Sequence[QuestionState]
    ) -> Mapping[str, Any]:
        """Return entries of `results.json`."""
        return {}

    def table(self, results: Mapping[str, Any]) -> PlainTable | None:
        """Return a table of its entries of `results.json` for the terminal."""
        return None

    def summary(self, results: Mapping[str, Any]) -> str | None:
        """Summarize its entries of `results.json` in one sentence for the terminal."""
        return None

    def totals(self, turns: Sequence[Turn]) -> Mapping[str, Any]:
        """Return entries of `totals` in `results.json`."""
        return {}

    def caveats(self, turns: Sequence[Turn]) -> Iterable[str]:
        """Return caveats derived from turns."""
        return ()

    def notes(self, run: RunData) -> Iterable[str]:
        """Return caveats that must accompany every score of a stored run."""
        return ()


def after_turn(parts: Parts) -> list[AfterTurn]:
    """Return what is asked after each turn of a run."""
    asked = (part.after_turn(parts) for part in run_parts())
    return [ask for ask in asked if ask is not None]


def result_tables(results: Mapping[str, Any], *, every: bool = False) -> Group:
    """Return the table of scores, followed by those of parts and of reached views; `every` adds all other mean scores."""
    tables = [score_table(results, every=every), *(part.table(results) for part in run_parts())]
    if "views" in results:
        tables.append(view_table(results["views"]))
    return Group(*filter(None, tables))


@cache
def run_parts() -> tuple[RunPart, ...]:
    return tuple(registry.load("run part", name)() for name in registry.names("run part"))
