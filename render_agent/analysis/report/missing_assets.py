"""What a report could not show, as files that it is made of are gone."""

from __future__ import annotations

from pathlib import Path

from render_agent.analysis.report.data import ReportData
from render_agent.analysis.report.maps.floor_plan import cameras_of
from render_agent.observation.picture_store import safe_name


def lacking(report: ReportData, place: Path) -> list[str]:
    """Return a sentence for scans and for pictures that are not there; place: of the pages."""
    moved = [state for state in report.states if any(True for _ in cameras_of(state))]
    scenes = {state.question.scene for state in moved}
    gone = [s for s in scenes if not (place / "plans" / f"{safe_name(s)}.png").is_file()]
    files = {file for state in moved for turn in state.turns for file in turn.drawn}
    lost = [file for file in files if not (report.folder.path / file).is_file()]
    told = []
    if gone:
        told.append(
            f"{len(gone)} of {len(scenes)} scans cannot be read here: their pages have no plan, and"
            " nothing tells what was seen"
        )
    if lost:
        told.append(f"{len(lost)} of {len(files)} pictures are gone from views/: pages lack them")
    return told
