"""The report part of answers over turns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from render_agent.report.answering.evidence import LABELS as EVIDENCE
from render_agent.report.report_part import ReportPart
from render_agent.runs.read import RunData
from render_agent.score.dialogues.answering import LABELS, compare_answering


class AnsweringPart(ReportPart):
    """Any-time scores, changes, calibration and, on pages, the search for evidence."""

    comparison_title = "Answers during the dialogue"
    labels = LABELS | EVIDENCE

    def compare(self, a: RunData, b: RunData) -> Mapping[str, dict[str, Any]]:
        """Return the differences over the questions that both runs have scored; empty if all dialogues have one turn
        without a confidence.
        """
        return compare_answering(a.states, b.states)
