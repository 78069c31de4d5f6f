"""The pages of the questions."""

from __future__ import annotations

from pathlib import Path

from render_agent.report.data import ReportData


def write(report: ReportData, folder: Path, processes: int) -> None:
    """Write the page of every question of a run into the `questions` of its report's folder."""
