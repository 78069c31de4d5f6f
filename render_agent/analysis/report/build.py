"""The report of a run: its pages, written into its folder, and what could not be shown."""

from __future__ import annotations

import filecmp
import os
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from render_agent.analysis.diagnosis.diagnose import working, worthwhile
from render_agent.analysis.report.data import ReportData, page_file, read_run
from render_agent.analysis.report.index.index_page import ScorePlots, write_index
from render_agent.analysis.report.maps.floor_plan import cameras_of
from render_agent.analysis.report.question.question_page import write_pages
from render_agent.dialogue.state import QuestionState
from render_agent.extras import require
from render_agent.observation.picture_store import safe_name
from render_agent.runs.log.folder import RunFolder
from render_agent.system.contained_paths import is_picture, refuse_links_out
from render_agent.system.kept_files import remove_oldest
from render_agent.system.whole_files import write_whole, writing
from render_agent.web.templates import ASSETS

REPORT = "report"
"""The folder of the pages, within the run folder; nothing in it refers to anything outside."""


def build(
    folder: RunFolder, *, processes: int | None = None, diagnose: bool = True
) -> tuple[Path, ReportData]:
    """Write the report of a run into its folder and return its index and what it was made of.

    processes: how many write pages and diagnose at once (default: one a core). diagnose: whether to
    compute what the cameras saw; without it pages lack causes, coverage and sightings. Works for a run
    in progress too, and may be done again at will: a page is there whole or not at all, and pages of
    questions that are no more are removed. RunLogError where the log is damaged or the folder cannot be
    written.
    """
    require("a report", "matplotlib")
    pages = folder.path / REPORT
    refuse_links_out(pages)
    before = _lying(pages)
    questions = folder.questions() if folder.has_questions else None
    count = processes or worthwhile(questions or ())
    with working(count) as pool:  # they get ready while the log is read here
        report = read_run(folder, diagnose=False, questions=questions)
        copy_assets(pages)
        pictures: set[str] = set()
        scores: list[ScorePlots] = []

        def meanwhile() -> None:
            pictures.update(link_pictures(folder.path, report.states, pages))
            scores.append(ScorePlots.of(report))

        diagnoses = write_pages(report, pages, count, pool, meanwhile, diagnose=diagnose)
    report = replace(report, diagnoses=diagnoses)
    write_index(report, pages, *scores)
    remove_stale(pages, report.rows)
    _remove_strange(pages, before, report, pictures)
    remove_oldest()
    return pages / "index.html", report


def copy_assets(pages: Path) -> None:
    """Write style and scripts into the `assets` of a folder of pages."""
    for asset in sorted(ASSETS.iterdir()):
        write_whole(pages / "assets" / asset.name, asset.read_bytes(), durable=False)


def link_pictures(run: Path, states: Iterable[QuestionState], pages: Path) -> set[str]:
    """Give pages the pictures that turns of a run name, under `views`: as hard links, or copies where there are none.

    Return those that are there. A picture that is gone is left out. RunLogError where one leads out of the run, or
    cannot be written.
    """
    refuse_links_out(run / "views")
    drawn = {file for state in states for turn in state.turns for file in turn.drawn}
    linked = set()
    for file in filter(is_picture, drawn):
        # as texts: there are tens of thousands, and a Path takes longer to make than a link
        source, target = f"{run}/{file}", f"{pages}/{file}"
        with writing(target), suppress(FileNotFoundError):
            _put_in_place(source, target)
            linked.add(target)
    return linked


def _put_in_place(source: str, target: str) -> None:
    """Link a picture into the report, unless it is there; FileNotFoundError where it is gone from the run."""
    try:
        os.link(source, target)
    except FileExistsError:
        if not _is_same(source, target):
            Path(target).unlink()
            _put_in_place(source, target)
    except FileNotFoundError:
        folder = Path(target).parent
        if folder.is_dir():
            raise
        Path(source).stat()
        folder.mkdir(parents=True, exist_ok=True)
        _put_in_place(source, target)
    except OSError:  # the disk has no hard links
        shutil.copy2(source, target)


def _is_same(source: str, target: str) -> bool:
    of_run = os.stat(source)  # noqa: PTH116
    try:
        return os.path.samestat(of_run, os.stat(target)) or filecmp.cmp(  # noqa: PTH116
            source, target, shallow=False
        )
    except FileNotFoundError:  # a link to nothing
        return False


def remove_stale(pages: Path, question_ids: Iterable[str]) -> None:
    """Remove pages of questions that are no more, and what a killed build left half."""
    wanted = {page_file(question_id) for question_id in question_ids}
    folder = pages / "questions"
    for file in folder.iterdir() if folder.is_dir() else ():
        if file.name not in wanted:
            shutil.rmtree(file) if file.is_dir() else file.unlink()


def _remove_strange(
    pages: Path,
    before: Mapping[str, tuple[int, int]],
    report: ReportData,
    pictures: set[str],
) -> None:
    """Remove what lay in the report's folders before and was not written anew: whose run it was may have laid it there.

    Plans and scenes are kept, which were checked when they were read, and pictures of the run.
    """
    names = {safe_name(state.question.scene) for state in report.states}
    kept = {f"{pages}/{place}" for n in names for place in (f"plans/{n}.png", f"scenes3d/{n}.js")}
    for file in before.keys() - kept - pictures:
        path = Path(file)
        if path.parent != pages and os.path.lexists(file) and _told_by(file) == before[file]:
            path.unlink()


def _lying(pages: Path) -> dict[str, tuple[int, int]]:
    """Return by their paths what tells the files below a folder from those that are written in their places."""
    files = (f"{folder}/{name}" for folder, _, names in os.walk(pages) for name in names)
    return {file: _told_by(file) for file in files}


def _told_by(file: str) -> tuple[int, int]:
    state = os.lstat(file)
    return state.st_ino, state.st_mtime_ns


def missing_assets(report: ReportData, pages: Path) -> list[str]:
    """Return a sentence for scans and for pictures that are not there; pages: the folder of the report."""
    moved = [state for state in report.states if next(cameras_of(state), None)]
    scenes = {state.question.scene for state in moved}
    gone = [s for s in scenes if not (pages / "plans" / f"{safe_name(s)}.png").is_file()]
    files = {file for state in moved for turn in state.turns for file in turn.drawn}
    lost = [file for file in files if not os.path.isfile(f"{report.folder.path}/{file}")]  # noqa: PTH113
    sentences = []
    if gone:
        sentences.append(
            f"{len(gone)} of {len(scenes)} scans cannot be read here: their pages have no plan, and"
            " nothing tells what was seen"
        )
    if lost:
        sentences.append(
            f"{len(lost)} of {len(files)} pictures are gone from views/: pages lack them"
        )
    return sentences
