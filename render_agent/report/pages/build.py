"""The report of a run: its pages, written into its folder."""

from __future__ import annotations

from pathlib import Path

from render_agent.extras import require
from render_agent.report.diagnosis.diagnose import diagnose_run
from render_agent.report.pages.index.index_page import write_index
from render_agent.report.pages.maps.floor_plan import cameras_of
from render_agent.report.pages.page import copy_assets
from render_agent.report.pages.question.question_page import write_pages
from render_agent.runs.read import RunData
from render_agent.util.whole_files import new_folder
from render_agent.views.picture_store import safe_name

REPORT = "report"
"""The folder of the pages within the run folder; their pictures are in `views` beside it."""


def build_report(run: RunData, *, processes: int | None = None, diagnose: bool = True) -> Path:
    """Write the report of a run into its folder and return its index.

    The pages are written into a new folder, which then takes the place of the earlier report. A run in progress is
    reported too. RunLogError if the log is damaged or the folder cannot be written.

    Args:
        run: The run.
        processes: Processes that diagnose and write pages; one per core unless given, fewer for a small run.
        diagnose: Whether to compute what the cameras saw. Without it, pages lack causes, coverage and sightings.
    """
    require("a report", "matplotlib")
    diagnoses = diagnose_run(run, processes) if diagnose else {}
    with new_folder(run.path / REPORT) as pages:
        copy_assets(pages)
        write_pages(run, diagnoses, pages, processes)
        write_index(run, diagnoses, pages)
    return run.path / REPORT / "index.html"


def missing_assets(run: RunData, pages: Path) -> list[str]:
    """Return a sentence each about missing scans and missing pictures; pages: the folder of the report."""
    moved = [state for state in run.states if next(cameras_of(state), None)]
    scenes = {state.question.scene for state in moved}
    gone = [s for s in scenes if not (pages / "plans" / f"{safe_name(s)}.png").is_file()]
    files = {file for state in moved for turn in state.turns for file in turn.drawn}
    lost = [file for file in files if not (run.path / file).is_file()]
    sentences = []
    if gone:
        sentences.append(
            f"{len(gone)} of {len(scenes)} scans cannot be read: their pages have no plan and no visibility"
        )
    if lost:
        sentences.append(f"{len(lost)} of {len(files)} pictures are missing from views/")
    return sentences
