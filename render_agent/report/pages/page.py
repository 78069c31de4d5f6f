"""What the pages of a run share: their frame, names and links."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from render_agent.dialogue.chat import encodable
from render_agent.runs.read import RunData
from render_agent.util.web.templates import ASSETS, environment
from render_agent.views.picture_store import safe_name

UNFINISHED = "IN PROGRESS"


def stamps(run: RunData) -> list[str]:
    """Return the capital words on every page: that a run is in progress, partial, or a stress test."""
    done = sum(not state.active for state in run.states)
    stamps = []
    if not run.finished:
        stamps.append(f"{UNFINISHED}: {done} of {len(run.states)} questions done")
    if run.config.partial:
        stamps.append("PARTIAL: some of the benchmark's questions")
    elif run.finished and run.results["status"] != "complete":
        stamps.append("PARTIAL: not every question is scored")
    if stress := run.parts.picture_stress.note:
        stamps.append(stress.replace("stress test", "STRESS TEST"))
    return stamps


def notes(run: RunData) -> list[str]:
    """Return the notes beside every figure of a run, without its stamps."""
    return [note for note in run.results["notes"] if note != run.parts.picture_stress.note]


def frame(run: RunData) -> dict[str, Any]:
    """Return the variables of `base.html`, except `root`, the path from a page to the folder of the index."""
    return {"name": run.name, "stamps": stamps(run), "notes": notes(run)}


def write_page(file: Path, template: str, frame: Mapping[str, Any], **values: Any) -> None:
    """Write a page.

    template: of this report's. frame: what all pages of the run or the comparison share. values: what this one shows.
    """
    page = environment("report/pages").get_template(template)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(encodable(page.render(frame, **values)).encode("utf-8"))


def copy_assets(pages: Path) -> None:
    """Copy style and scripts into the `assets` of a folder of pages."""
    shutil.copytree(ASSETS, pages / "assets", dirs_exist_ok=True)


def page_of(question_id: str) -> str:
    """Return where a question's page lies, relative to the index."""
    return f"questions/{safe_name(question_id)}.html"


def neighbours(question_ids: Iterable[str]) -> dict[str, tuple[str | None, str | None]]:
    """Return by question the files of the pages before and after its own, None where there is none."""
    ids = list(question_ids)
    files = [None, *(f"{safe_name(name)}.html" for name in ids), None]
    return {name: (files[n], files[n + 2]) for n, name in enumerate(ids)}
