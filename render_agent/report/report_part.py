"""Report parts: what an optional part of a run adds to its diagnosis, its report and comparisons."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from render_agent import registry

if TYPE_CHECKING:
    from render_agent.dialogue.state import QuestionState
    from render_agent.options import RunConfig
    from render_agent.report.diagnosis.model import Diagnosis
    from render_agent.report.pages.plots.run_plots import Plot
    from render_agent.report.pages.question.question_view import QuestionView
    from render_agent.report.sentences.contrasts import Trait
    from render_agent.runs.read import RunData


@dataclass(frozen=True)
class Section:
    """A section at the end of a question page; subclasses add the data for the template."""

    template: str
    """Jinja template, in `ReportPart.templates`, with a macro `section(data, q, root)`."""
    style: str
    """Style sheet in `assets`."""


class ReportPart:
    """What an optional part of a run adds; nothing unless a subclass overrides it."""

    heading: ClassVar[str] = ""
    """Heading of its lines in `show`."""
    comparison_title: ClassVar[str] = ""
    """Title of its table in `compare`."""
    labels: ClassVar[Mapping[str, str]] = {}
    """Labels of the figures that `compare` returns."""
    templates: ClassVar[Path | None] = None
    """Folder of its templates."""
    traits: ClassVar[Sequence[Trait]] = ()
    """Traits that answers with low scores can have in common."""

    def facts(self, config: RunConfig) -> Mapping[str, str]:
        """Return facts about a run for the index page."""
        return {}

    def diagnose(
        self,
        state: QuestionState,
        diagnosis: Diagnosis,
        first_turns: Mapping[int, int],  # see `first_clear_turns`
        truth: str | None,
    ) -> Diagnosis:
        """Refine the diagnosis of a question."""
        return diagnosis

    def figures(
        self,
        states: Sequence[QuestionState],
        diagnoses: Mapping[str, Diagnosis],
        size: tuple[int, int],  # width and height of the images in pixels
    ) -> Mapping[str, Any]:
        """Return entries for the summary of a run's diagnoses."""
        return {}

    def sentences(self, figures: Mapping[str, Any]) -> Iterable[str]:
        """Return sentences about the figures of a summary."""
        return ()

    def plots(self, run: RunData, diagnoses: Mapping[str, Diagnosis]) -> Iterable[Plot]:
        """Return plots for the index page."""
        return ()

    def sections(self, view: QuestionView) -> Iterable[Section]:
        """Return sections for the page of a question."""
        return ()

    def lines(self, run: RunData, state: QuestionState) -> Iterable[str]:
        """Return lines about a question for the terminal."""
        return ()

    def compare(self, a: RunData, b: RunData) -> Mapping[str, dict[str, Any]]:
        """Return the differences between two runs, by key of `labels`."""
        return {}


@cache
def report_parts() -> Mapping[str, ReportPart]:
    """Return the report parts by name."""
    return {name: registry.load("report part", name)() for name in registry.names("report part")}
