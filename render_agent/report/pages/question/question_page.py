"""Writes the question pages of a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from render_agent.dialogue.question import Question
from render_agent.report.diagnosis.diagnose import (
    SceneTask,
    cache_diagnoses,
    diagnose_scene,
    map_scenes,
    num_processes,
    scene_tasks,
)
from render_agent.report.diagnosis.model import Diagnosis
from render_agent.report.pages.maps.floor_plan import FloorPlanCache
from render_agent.report.pages.page import frame, neighbours, page_of, write_page
from render_agent.report.pages.question.question_view import question_view
from render_agent.runs.log.row import Row
from render_agent.runs.read import RunData


@dataclass(frozen=True, eq=False)
class PageTask(SceneTask):
    """The questions about one scene, and what their pages need."""

    rows: Mapping[str, Row]
    adjacent: Mapping[str, tuple[str | None, str | None]]
    """File names of the previous and next page, by question id."""
    shown: Sequence[Question]
    """The questions that determine the scenes shown: all questions of the run if scenes are shuffled."""
    folder: Path
    """The report folder."""
    frame: Mapping[str, Any]
    """Variables common to all pages."""


def write_pages(
    run: RunData,
    folder: Path,
    processes: int | None = None,  # number of processes; None chooses it by the amount of work
    *,
    diagnose: bool = True,
    alone: Sequence[tuple[str, str]] | None = None,  # facts for the page of a single question
) -> dict[str, Diagnosis]:
    """Write the question pages of a run and return its diagnoses. A scan is read once, for both."""
    states, adjacent = run.dialogues, neighbours(state.id for state in run.dialogues)
    variables = frame(run) if alone is None else frame(run) | {"alone": alone}
    is_shuffled = run.parts.image_stress.reads_all_scans
    tasks = [
        PageTask(
            **vars(task),
            rows={state.id: run.rows[state.id] for state in task.states},
            adjacent={state.id: adjacent[state.id] for state in task.states},
            shown=run.questions if is_shuffled else [state.question for state in task.states],
            folder=folder,
            frame=variables,
        )
        for task in scene_tasks(run, states, diagnose=diagnose)
    ]
    count = processes or num_processes(states)
    diagnoses = map_scenes(_write, tasks, count, "writing pages")
    return cache_diagnoses(run, states, diagnoses) if diagnose else {}


def _write(task: PageTask) -> dict[str, Diagnosis]:
    scenes = task.parts.scenes(task.shown)
    diagnoses = diagnose_scene(task, scenes)
    is_index = "alone" in task.frame
    with closing(FloorPlanCache(task.folder, scenes, task.states)) as plans:
        for state in task.states:
            row, diagnosis = task.rows[state.id], diagnoses.get(state.id)
            before, after = task.adjacent[state.id]
            file, root = ("index.html", "") if is_index else (page_of(state.id), "../")
            write_page(
                task.folder / file,
                "question.html",
                task.frame,
                root=root,
                images=f"{root}../",
                q=question_view(state, row, diagnosis, plans, task.parts),
                before=before,
                after=after,
            )
    return diagnoses
