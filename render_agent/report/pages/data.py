"""The data of a report: one run, read once."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from render_agent.config import RunConfig
from render_agent.dialogue.chat import encodable
from render_agent.dialogue.state import QuestionState, split_counterparts
from render_agent.report.diagnosis.model import Diagnosis
from render_agent.runs.log.results import standing
from render_agent.runs.read import RunData
from render_agent.util.web.templates import ASSETS, environment
from render_agent.views.picture_store import safe_name

UNFINISHED = "IN PROGRESS"


@dataclass
class ReportData:
    """A run as its pages show it.

    states: in the order of the run. results: as `results.json` has them, computed from the log. diagnoses: by
    question id, of the questions that were diagnosed. finished: whether the run has come to its end.
    """

    folder: RunData
    config: RunConfig
    states: Sequence[QuestionState]
    results: Mapping[str, Any]
    finished: bool
    diagnoses: Mapping[str, Diagnosis] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The run's name."""
        return self.folder.name

    @property
    def record(self) -> Mapping[str, Any]:
        """What `config.json` holds."""
        return self.folder.record

    @cached_property
    def standing(self) -> Mapping[str, Any]:
        """The status and the notes of the results, known before these are."""
        return standing(self.states, partial=self.config.partial, notes=self.folder.notes)

    @cached_property
    def rows(self) -> dict[str, Mapping[str, Any]]:
        """The rows of the results by question id."""
        return {row["question_id"]: row for row in self.results["questions"]}

    @cached_property
    def own_diagnoses(self) -> dict[str, Diagnosis]:
        """The diagnoses of the benchmark's own questions, without their counterparts: of these figures are made."""
        own = (state.id for state in split_counterparts(self.states)[0])
        return {name: self.diagnoses[name] for name in own if name in self.diagnoses}

    @property
    def stamps(self) -> list[str]:
        """What stands on every page in capitals: that the run is in progress, partial, or a stress test."""
        done = sum(not state.active for state in self.states)
        stamps = []
        if not self.finished:
            stamps.append(f"{UNFINISHED}: {done} of {len(self.states)} questions done")
        if self.config.partial:
            stamps.append("PARTIAL: some of the benchmark's questions")
        elif self.finished and self.standing["status"] != "complete":
            stamps.append("PARTIAL: not every question is scored")
        if stress := self.config.picture_stress.note:
            stamps.append(stress.replace("stress test", "STRESS TEST"))
        return stamps

    @property
    def notes(self) -> list[str]:
        """What must be said beside every figure of this run, apart from its stamps."""
        return [note for note in self.standing["notes"] if note != self.config.picture_stress.note]

    @property
    def frame(self) -> dict[str, Any]:
        """What `base.html` wants, apart from `root`, the way from a page to the folder of the index."""
        return {"name": self.name, "stamps": self.stamps, "notes": self.notes}


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


def read_run(folder: RunData) -> ReportData:
    """Read a run for its report, finished or not. RunLogError if its log is damaged."""
    return ReportData(folder, folder.config, folder.states, folder.results, folder.finished)
