"""The pages of the questions: what each asks, what was seen, said and done, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from render_agent.dialogue.question import Question
from render_agent.dialogue.state import QuestionState
from render_agent.report.diagnosis.diagnose import by_scene, worthwhile
from render_agent.report.diagnosis.model import Diagnosis
from render_agent.report.pages.maps.floor_plan import Plans
from render_agent.report.pages.page import frame, neighbours, page_of, write_page
from render_agent.report.pages.question.question_view import QuestionView
from render_agent.runs.build import Parts
from render_agent.runs.log.row import row_of
from render_agent.runs.read import RunData
from render_agent.util.display import stage
from render_agent.util.processes import map_in_processes


@dataclass(frozen=True, eq=False)
class PageTask:
    """The questions about one scene, whose pages one process writes.

    folder: of the report. frame: what all pages share. questions: all of the run where they tell which scenes are
    shown. beside: the files of the pages beside its own, by question id.
    """

    parts: Parts
    folder: Path
    frame: Mapping[str, Any]
    states: Sequence[QuestionState]
    questions: Sequence[Question]
    diagnoses: Mapping[str, Diagnosis]
    beside: Mapping[str, tuple[str | None, str | None]]


def write_pages(
    run: RunData, diagnoses: Mapping[str, Diagnosis], folder: Path, processes: int | None = None
) -> None:
    """Write the pages of a run's questions into the `questions` of its report's folder.

    processes: how many write at once; None chooses by the number of scenes.
    """
    shared, beside = frame(run), neighbours(state.id for state in run.states)
    tasks = [
        PageTask(
            run.parts,
            folder,
            shared,
            own,
            # which scene stands in the place of another depends on all of them
            [s.question for s in own] if run.parts.faithful else run.questions,
            {s.id: diagnoses[s.id] for s in own if s.id in diagnoses},
            {s.id: beside[s.id] for s in own},
        )
        for own in by_scene(run.states)
    ]
    count = min(processes or worthwhile(run.states), len(tasks) or 1)
    with stage("writing pages", len(run.states)) as shown:
        for task, _ in zip(tasks, map_in_processes(_write, tasks, count), strict=True):
            shown.advance(len(task.states))


def _write(task: PageTask) -> None:
    scenes = task.parts.scenes(task.questions)
    with closing(Plans(task.folder, scenes, task.states)) as plans:
        for state in task.states:
            diagnosis = task.diagnoses.get(state.id)
            plan = plans.of(state, diagnosis)
            before, after = task.beside[state.id]
            write_page(
                task.folder / page_of(state.id),
                "question.html",
                task.frame,
                root="../",
                pictures="../../",
                q=QuestionView(state, row_of(state), diagnosis, plan, task.parts),
                before=before,
                after=after,
            )
