"""The data of a report: one run, read once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

from render_agent.analysis.diagnosis.diagnose import diagnose_run
from render_agent.analysis.diagnosis.model import Diagnosis
from render_agent.analysis.related_runs import Sibling, siblings
from render_agent.config import RunConfig
from render_agent.dialogue.chat import encodable
from render_agent.dialogue.state import Phase, Question, QuestionState, split_counterparts
from render_agent.observation.picture_store import safe_name
from render_agent.runs.log.folder import RunFolder
from render_agent.runs.log.reader import notes, read_states, results_of
from render_agent.runs.log.results import standing
from render_agent.system.whole_files import write_whole
from render_agent.web.templates import environment

UNFINISHED = "IN PROGRESS"


@dataclass(frozen=True)
class ReportData:
    """A run as its pages show it.

    states: in the order of the run. compute_results: returns `results`; asked for once, as it takes long.
    batches: phase and size of the batch of every turn, in the order of the log. diagnoses: by question
    id; a question that was not diagnosed is not in it. siblings: finished runs beside this one that
    differ from it in what was shown alone. finished: whether the run has come to its end.
    """

    folder: RunFolder
    config: RunConfig
    states: Sequence[QuestionState]
    compute_results: Callable[[], Mapping[str, Any]]
    batches: Sequence[tuple[Phase, int]]
    diagnoses: Mapping[str, Diagnosis]
    siblings: Sequence[Sibling]
    finished: bool

    @property
    def name(self) -> str:
        """The run's name."""
        return self.folder.name

    @property
    def record(self) -> Mapping[str, Any]:
        """What `config.json` holds."""
        return self.folder.record

    @property
    def results(self) -> Mapping[str, Any]:
        """The results as `results.json` has them, computed from the log."""
        return self.compute_results()

    @cached_property
    def standing(self) -> Mapping[str, Any]:
        """The status and the notes of the results, known before these are."""
        own = notes(self.record)
        return standing(self.states, partial=self.config.partial, notes=own)

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
    """Write a page, whole or not at all. RunLogError where it cannot be written.

    template: of this report's. frame: what all pages of the run or the comparison share. values: what this one shows.
    """
    page = environment("analysis/report").get_template(template)
    write_text(file, page.render(frame, **values))


def write_text(file: Path, text: str) -> None:
    """Write a text of a report, whole or not at all. RunLogError where it cannot be written."""
    write_whole(file, encodable(text).encode("utf-8"), durable=False)


def page_file(question_id: str) -> str:
    """Return the name of the file of a question's page."""
    return f"{safe_name(question_id)}.html"


def page_of(question_id: str) -> str:
    """Return where a question's page lies, relative to the index."""
    return f"questions/{page_file(question_id)}"


def neighbours(question_ids: Iterable[str]) -> dict[str, tuple[str | None, str | None]]:
    """Return by question the files of the pages before and after its own, None where there is none."""
    ids = list(question_ids)
    files = [None, *map(page_file, ids), None]
    return {name: (files[n], files[n + 2]) for n, name in enumerate(ids)}


def read_run(
    folder: RunFolder,
    *,
    diagnose: bool = True,
    processes: int | None = None,
    questions: Sequence[Question] | None = None,
) -> ReportData:
    """Read a run for its report, finished or not. RunLogError where its log is damaged.

    diagnose: whether to compute what its views showed; processes: as `diagnose_run` has them. questions: of
    the run, where they were read already.
    """
    lines = folder.turns()
    states = read_states(folder, lines, questions=questions)
    return ReportData(
        folder=folder,
        config=folder.config,
        states=states,
        compute_results=cache(partial(results_of, folder, states=states)),
        batches=[(line.turn.phase, line.turn.batch_size) for line in lines if line.turn],
        diagnoses=diagnose_run(folder, processes, states) if diagnose else {},
        siblings=siblings(folder),
        finished=folder.finished,
    )
