"""Writes the question pages of a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from render_agent.dialogue.question import Question
from render_agent.dialogue.state import QuestionState
from render_agent.report.diagnosis.diagnose import by_scene, num_processes
from render_agent.report.diagnosis.model import Diagnosis
from render_agent.report.pages.maps.floor_plan import FloorPlanCache
from render_agent.report.pages.maps.target_marks import target_path
from render_agent.report.pages.page import frame, neighbours, page_of, write_page
from render_agent.report.pages.question.question_view import QuestionView
from render_agent.runs.build import Parts
from render_agent.runs.log.row import row_of
from render_agent.runs.read import RunData
from render_agent.util.display import stage
from render_agent.util.processes import map_in_processes


@dataclass(frozen=True, eq=False)
class PageTask:
    """The questions about one scene. Their pages are written by one process."""

    parts: Parts
    folder: Path
    """The report folder."""
    frame: dict[str, Any]
    """Variables common to all pages."""
    states: Sequence[QuestionState]
    questions: Sequence[Question]
    """The questions that determine the scenes shown: all questions of the run if scenes are shuffled."""
    diagnoses: Mapping[str, Diagnosis]
    adjacent: Mapping[str, tuple[str | None, str | None]]
    """File names of the previous and next page, by question id."""
    about: dict[str, Any]
    """Variables of the only page of a run with one question, which is the index; empty for other runs."""


def write_pages(
    run: RunData,
    diagnoses: Mapping[str, Diagnosis],
    folder: Path,
    processes: int | None = None,  # number of processes; None chooses it by the amount of work
    facts: Sequence[tuple[str, str]] | None = None,
) -> None:
    """Write the question pages of a run."""
    index_variables = {} if facts is None else {"alone": facts}
    variables, adjacent = frame(run), neighbours(state.id for state in run.dialogues)
    tasks = [
        PageTask(
            run.parts,
            folder,
            variables,
            states,
            # shuffled scenes depend on all questions
            run.questions
            if run.parts.image_stress.reads_all_scans
            else [s.question for s in states],
            {s.id: diagnoses[s.id] for s in states if s.id in diagnoses},
            {s.id: adjacent[s.id] for s in states},
            index_variables,
        )
        for states in by_scene(run.dialogues)
    ]
    count = min(processes or num_processes(run.dialogues), len(tasks) or 1)
    with stage("writing pages", len(run.dialogues)) as progress_bar:
        for task, _ in zip(tasks, map_in_processes(_write, tasks, count), strict=True):
            progress_bar.advance(len(task.states))


def _write(task: PageTask) -> None:
    scenes, config = task.parts.scenes(task.questions), task.parts.config
    with closing(FloorPlanCache(task.folder, scenes, task.states)) as plans:
        for state in task.states:
            diagnosis = task.diagnoses.get(state.id)
            plan = plans.of(state, diagnosis)
            target = target_path(state, scenes, config.image_size, config.field_of_view)
            before, after = task.adjacent[state.id]
            file, root = ("index.html", "") if task.about else (page_of(state.id), "../")
            write_page(
                task.folder / file,
                "question.html",
                task.frame | task.about,
                root=root,
                images=f"{root}../",
                q=QuestionView(state, row_of(state), diagnosis, plan, task.parts, target),
                before=before,
                after=after,
            )
