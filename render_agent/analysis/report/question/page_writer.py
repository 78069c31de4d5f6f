"""The pages of the questions: written scene by scene, in several processes where it pays."""

from __future__ import annotations

import multiprocessing
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from render_agent.analysis.diagnosis.model import Diagnosis
from render_agent.analysis.report.data import ReportData, page_of
from render_agent.analysis.report.maps.floor_plan import Plans
from render_agent.analysis.report.question.question_page import (
    natural_neighbours,
    page_of_part,
    question_part,
)
from render_agent.config import RunConfig
from render_agent.dialogue.state import Question, QuestionState
from render_agent.render.registry import make_renderer
from render_agent.system.whole_files import write_whole

FEW = 150
"""Pages of so many questions are written before other processes have started."""


@dataclass(frozen=True, slots=True)
class Job:
    """Some questions whose pages one process writes, and what it needs to do so.

    frame: what all pages share. chosen: all questions of the run. entries: a state, its row of the
    results, its diagnosis, and the ids beside it.
    """

    folder: Path
    frame: Mapping[str, Any]
    config: RunConfig
    chosen: Sequence[Question]
    entries: Sequence[
        tuple[QuestionState, Mapping[str, Any], Diagnosis | None, tuple[str | None, str | None]]
    ]


def write(report: ReportData, folder: Path, processes: int) -> None:
    """Write the page of every question of a run into the `questions` of its report's folder.

    processes: how many write at once. RunLogError where a file cannot be written.
    """
    if processes < 2 or len(report.states) <= FEW:
        _write(_job(report, folder, report.states))
        return
    jobs = [_job(report, folder, states) for states in dealt(report.states, 4 * processes)]
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        for done in [pool.submit(_write, job) for job in jobs]:
            done.result()


def plans_of(report: ReportData, folder: Path) -> Plans:
    """Return the plans of a run's scenes, drawn into the folder of its report where they are not yet."""
    return _plans(report.config, [state.question for state in report.states], folder)


def dealt(states: Sequence[QuestionState], parts: int) -> list[list[QuestionState]]:
    """Return the questions in at most `parts` parts of about one size; those of a scene stay together."""
    scenes: dict[str, list[QuestionState]] = defaultdict(list)
    for state in states:
        scenes[state.question.scene].append(state)
    found: list[list[QuestionState]] = [[] for _ in range(min(parts, len(scenes)))]
    for own in sorted(scenes.values(), key=len, reverse=True):
        min(found, key=len).extend(own)
    return found


def _job(report: ReportData, folder: Path, states: Sequence[QuestionState]) -> Job:
    beside = natural_neighbours(report.states)
    return Job(
        folder,
        report.frame,
        report.config,
        [state.question for state in report.states],
        [
            (state, report.rows[state.id], report.diagnoses.get(state.id), beside[state.id])
            for state in states
        ],
    )


def _write(job: Job) -> None:
    config = job.config
    plans = _plans(config, job.chosen, job.folder)
    try:
        for state, row, diagnosis, beside in job.entries:
            plan = plans.of(state, diagnosis)
            part = question_part(state, row, diagnosis, plan, config)
            page = page_of_part(job.frame, part, beside)
            write_whole(job.folder / page_of(state.id), page.encode("utf-8"), durable=False)
    finally:
        plans.close()


def _plans(config: RunConfig, chosen: Sequence[Question], folder: Path) -> Plans:
    return Plans(
        folder, config.picture_stress.scenes(config, chosen), lambda: make_renderer("rasteriser")
    )
