"""The report part of beliefs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from render_agent.dialogue.state import QuestionState
from render_agent.errors import QuestionsError
from render_agent.options import RunConfig
from render_agent.parts.beliefs.belief_figures import (
    LABELS,
    belief_differences,
    last_steps,
)
from render_agent.parts.beliefs.part import beliefs_of
from render_agent.parts.beliefs.scored_probe import ScoredProbe
from render_agent.report.beliefs.agreement import agreement_sentences, belief_agreement
from render_agent.report.beliefs.diagnosis import PART, belief_of, with_beliefs
from render_agent.report.beliefs.marks import BeliefMap, belief_maps
from render_agent.report.beliefs.plot import plot_maps
from render_agent.report.beliefs.text import belief_lines, compare_answers
from render_agent.report.beliefs.traits import TRAITS
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
    diagnose = staticmethod(with_beliefs)
    lines = staticmethod(belief_lines)

    def facts(self, config: RunConfig) -> Mapping[str, str]:
        return {"Belief probes": f"{', '.join(config.probe)}, every turn"} if config.probe else {}

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
        return agreement_sentences(figures[PART]) if PART in figures else ()

    def plots(self, run: RunData, diagnoses: Mapping[str, Diagnosis]) -> Iterable[Plot]:
        return filter(None, [plot_maps(run, diagnoses)])

    def sections(self, view: QuestionView) -> Iterable[Section]:
        maps = belief_maps(view.state, view.diagnosis, view.plan, view.size)
        summary = compare_answers(belief_of(view.diagnosis), view.state.answer)
        return (BeliefSection("beliefs.html", "beliefs.css", maps, summary),)

    def compare(self, a: RunData, b: RunData) -> Mapping[str, dict[str, Any]]:
        """Return the differences between the last beliefs of run b and run a; empty unless both were probed."""
        if not (a.config.probe and b.config.probe):
            return {}
        sides = []
        for run in (a, b):
            probes: Mapping[str, Sequence[ScoredProbe]] = {}
            with suppress(QuestionsError):  # the ground-truth files have changed since the run
                probes = beliefs_of(run, run.states)
            sides.append(last_steps(run.states, probes))
        return belief_differences(*sides)
