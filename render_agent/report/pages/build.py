"""Writes the HTML report of a run into the run folder."""

from __future__ import annotations

from pathlib import Path

from render_agent.extras import require
from render_agent.report.pages.index.index_page import describe_run, write_index
from render_agent.report.pages.maps.floor_plan import camera_poses
from render_agent.report.pages.page import copy_assets
from render_agent.report.pages.question.question_page import write_pages
from render_agent.runs.read import RunData
from render_agent.util.atomic_files import replacing_folder
from render_agent.views.image_store import safe_name

REPORT = "report"  # folder of the pages in the run folder; images are in the sibling folder `views`


def build_report(
    run: RunData,
    *,
    # number of processes; if None, one per core, or fewer for a small run
    processes: int | None = None,
    diagnose: bool = True,
) -> Path:
    """Write the report of a finished or running run and return the path of its index page.

    The pages are written to a new folder, which then atomically replaces an existing report. If the run has one
    question, its page is the report.
    """
    require("a report", "matplotlib")
    with replacing_folder(run.path / REPORT) as pages:
        copy_assets(pages)
        is_batch = run.config.batch or len(run.dialogues) != 1
        alone = None if is_batch else describe_run(run)
        diagnoses = write_pages(run, pages, processes, diagnose=diagnose, alone=alone)
        if is_batch:
            write_index(run, diagnoses, pages)
    return run.path / REPORT / "index.html"


def missing_assets(run: RunData, pages: Path) -> list[str]:
    """Return warnings about unreadable scans and missing images."""
    with_poses = [state for state in run.dialogues if next(camera_poses(state), None)]
    scenes = {state.question.scene for state in with_poses}
    no_plan = [s for s in scenes if not (pages / "plans" / f"{safe_name(s)}.png").is_file()]
    files = {file for state in with_poses for turn in state.turns for file in turn.image_files}
    missing_images = [file for file in files if not (run.path / file).is_file()]
    warnings = []
    if no_plan:
        warnings.append(
            f"{len(no_plan)} of {len(scenes)} scans cannot be read; their pages have no floor plan and no visibility"
        )
    if missing_images:
        warnings.append(f"{len(missing_images)} of {len(files)} images are missing from views/")
    return warnings
