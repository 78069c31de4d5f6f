"""Shared parts of all pages of a run: template variables, file names and links."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from render_agent.dialogue.chat import replace_unencodable
from render_agent.report.report_part import report_parts
from render_agent.runs.log.lock import status_of_unfinished
from render_agent.runs.read import RunData
from render_agent.score.intervals import MIN_SCENES, method_words
from render_agent.util.web.templates import ASSETS, PACKAGE, environment
from render_agent.views.image_store import safe_name

TEMPLATES = PACKAGE / "report" / "pages" / "templates"


def banners(run: RunData) -> list[str]:
    """Return the banners on every page of a run that is running, interrupted, partial or a stress test."""
    num_done = sum(not state.active for state in run.dialogues)
    stamps = []
    if not run.finished:
        status = status_of_unfinished(run.path).upper()
        stamps.append(f"{status}: {num_done} of {len(run.dialogues)} questions done")
    if run.config.partial:
        stamps.append("PARTIAL: only a subset of the benchmark's questions")
    elif run.finished and run.results["status"] != "complete":
        stamps.append("PARTIAL: some questions are not scored")
    if stress := run.parts.image_stress.note:
        stamps.append(stress.replace("stress test", "STRESS TEST"))
    return stamps


def notes(run: RunData) -> list[str]:
    """Return the caveats of a run and of its scene-based pages, except those shown as banners."""
    notes = [*run.results["notes"], *run.scene_notes, *run.file_notes]
    return [note for note in notes if note != run.parts.image_stress.note]


def frame(run: RunData) -> dict[str, Any]:
    """Return the variables of `base.html`, except `root` (relative path from a page to the report folder)."""
    return {
        "name": run.name,
        "stamps": banners(run),
        "notes": notes(run),
        "is_live": not run.finished,
    }


def write_page(
    file: Path,
    template: str | Path,  # of `report/pages`, or the file of a plug-in
    frame: Mapping[str, Any],  # variables common to all pages, see `frame`
    **values: Any,
) -> None:
    """Render a template to a file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(render_page(template, frame, **values).encode("utf-8"))


def render_page(template: str | Path, frame: Mapping[str, Any], **values: Any) -> str:
    """Render a template. For the arguments see `write_page`."""
    file = TEMPLATES / template
    folders = (part.templates for part in report_parts().values() if part.templates)
    page = environment("report/pages", file.parent, *folders).get_template(file.name)
    words = {"interval_words": method_words(), "min_scenes": MIN_SCENES}
    return replace_unencodable(page.render({**words, **frame}, **values))


def copy_assets(pages: Path) -> None:
    """Copy style sheets and scripts to the subfolder `assets`."""
    (pages / "assets").mkdir(parents=True, exist_ok=True)
    for file in ASSETS.iterdir():  # copytree collects errors in one without a reason
        shutil.copyfile(file, pages / "assets" / file.name)


def page_of(question_id: str) -> str:
    """Return the path of a question's page relative to the index page."""
    return f"questions/{safe_name(question_id)}.html"


def neighbours(question_ids: Iterable[str]) -> dict[str, tuple[str | None, str | None]]:
    """Return the file names of the previous and next page by question id; None at either end."""
    ids = list(question_ids)
    files = [None, *(f"{safe_name(name)}.html" for name in ids), None]
    return {name: (files[index], files[index + 2]) for index, name in enumerate(ids)}
