"""The report part of beliefs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from render_agent.beliefs.belief_figures import LABELS, summarize_beliefs
from render_agent.dialogue.state import QuestionState
from render_agent.options import RunConfig
from render_agent.report.beliefs.belief_agreement import agreement_sentences, belief_agreement
from render_agent.report.beliefs.belief_diagnosis import PART, belief_of, with_beliefs
from render_agent.report.beliefs.belief_marks import BeliefMap, belief_maps
from render_agent.report.beliefs.belief_plot import plot_maps
from render_agent.report.beliefs.belief_text import belief_lines, compare_answers
from render_agent.report.beliefs.belief_traits import TRAITS
from render_agent.report.beliefs.compare_beliefs import compare_beliefs
from render_agent.report.diagnosis.model import Diagnosis
from render_agent.report.pages.plots.run_plots import Plot
from render_agent.report.pages.question.question_view import QuestionView
from render_agent.report.report_part import ReportPart, Section
from render_agent.runs.read import RunData


@dataclass(frozen=True)
class BeliefSection(Section):
    """The belief maps of a question."""

    maps: Sequence[BeliefMap]
    """Empty if the question was not probed."""
    summary: str
    """Comparison of the answer with the one implied by its last map."""


class BeliefPart(ReportPart):
    """Beliefs of probed runs."""

    heading = "beliefs"
    comparison_title = "Beliefs after the last turn"
    labels = LABELS
    templates = Path(__file__).with_name("templates")
    traits = TRAITS

    def summary(self, results: Mapping[str, Any]) -> str | None:
        """Summarize the final beliefs of a run."""
        if PART not in results:
            return None
        return summarize_beliefs(results[PART], results["totals"]["probes"])

    def facts(self, config: RunConfig) -> Mapping[str, str]:
        """Return the probes of a run."""
        return {"Belief probes": f"{', '.join(config.probe)}, every turn"} if config.probe else {}

    def diagnose(
        self,
        state: QuestionState,
        diagnosis: Diagnosis,
        first_turns: Mapping[int, int],
        truth: str | None,
    ) -> Diagnosis:
        """Add the beliefs of a question, and refine the cause of a wrong answer."""
        return with_beliefs(state, diagnosis, first_turns, truth)

    def figures(
        self,
        states: Sequence[QuestionState],
        diagnoses: Mapping[str, Diagnosis],
        size: tuple[int, int],
    ) -> Mapping[str, Any]:
        """Return the agreement of beliefs with visibility and answers, if any question was probed."""
        rows = [
            (state, diagnoses[state.id], belief)
            for state in states
            if (belief := belief_of(diagnoses[state.id])) is not None
        ]
        return {PART: belief_agreement(rows, size)} if rows else {}

    def sentences(self, figures: Mapping[str, Any]) -> Iterable[str]:
        """Return sentences about the last maps."""
        return agreement_sentences(figures[PART]) if PART in figures else ()

    def plots(self, run: RunData, diagnoses: Mapping[str, Diagnosis]) -> Iterable[Plot]:
        """Return the plot of maps by turn."""
        return filter(None, [plot_maps(run, diagnoses)])

    def sections(self, view: QuestionView) -> Iterable[Section]:
        """Return the belief maps of a question."""
        maps = belief_maps(view.state, view.diagnosis, view.plan, view.size)
        summary = compare_answers(belief_of(view.diagnosis), view.state.answer)
        return (BeliefSection("beliefs.html", "beliefs.css", maps, summary),)

    def lines(self, run: RunData, state: QuestionState) -> Iterator[str]:
        """Return the cause of a question's result and its last belief."""
        return belief_lines(run, state)

    def compare(self, a: RunData, b: RunData) -> Mapping[str, dict[str, Any]]:
        """Return the differences between the last beliefs of two runs."""
        return compare_beliefs(a, b)
