"""Diagnosis of a run: measures visibility per scene in parallel processes, then judges each question."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from weakref import WeakKeyDictionary

from render_agent.dialogue.state import QuestionState, Status
from render_agent.errors import RenderError, SceneError
from render_agent.report.diagnosis.cause import diagnose
from render_agent.report.diagnosis.model import Diagnosis
from render_agent.report.diagnosis.path import diagnose_path
from render_agent.report.diagnosis.visibility_pass import Visibility, measure_scene
from render_agent.runs.build import Parts
from render_agent.runs.read import RunData
from render_agent.tasks.ground_truth import Facts, place_facts
from render_agent.util.display import stage
from render_agent.util.processes import count_cores, map_in_processes

logger = logging.getLogger(__name__)

# An extra process takes seconds to start, so it only pays off for this many scenes or questions.
SCENES_PER_PROCESS, QUESTIONS_PER_PROCESS = 8, 150

# Number of turns and status of a question. A change invalidates its cached diagnosis.
Progress = tuple[int, Status]


@dataclass(frozen=True, eq=False)
class SceneTask:
    """The questions of a run about one scene; diagnosed by one process."""

    parts: Parts
    states: Sequence[QuestionState]
    facts: Facts | None
    """Ground truth of the scene, if known."""


_DIAGNOSED: WeakKeyDictionary[RunData, dict[str, tuple[Progress, Diagnosis]]] = WeakKeyDictionary()


def diagnose_run(
    run: RunData,
    processes: int | None = None,
    # the questions to diagnose; all questions of the run if None
    states: Sequence[QuestionState] | None = None,
) -> dict[str, Diagnosis]:
    """Diagnose the questions of a finished or running run.

    Diagnoses are cached per `RunData`. A question is diagnosed again if it has progressed since the last call.
    Counterparts (`--change`) are judged by their own scene and ground truth. If a scan is missing or the images do not
    show it (`--image-stress black`, `noise`, `shuffled`, or no images), only the camera path is diagnosed.
    """
    parts, cache = run.parts, _DIAGNOSED.setdefault(run, {})
    states = run.dialogues if states is None else states
    progress = {state.id: (len(state.turns), state.status) for state in states}
    pending = [s for s in states if s.id not in cache or cache[s.id][0] != progress[s.id]]
    questions = [state.question for state in pending]
    facts = run.facts(questions) if parts.faithful else {}
    _ = run.changed_scans  # warns of scans that are not read
    tasks = [
        SceneTask(parts, group, facts.get(group[0].question.scene)) for group in by_scene(pending)
    ]
    with stage("measuring visibility", len(pending)) as progress_bar:
        count = min(processes or num_processes(pending if parts.faithful else ()), len(tasks) or 1)
        results = map_in_processes(_diagnose_scene, tasks, count)
        for task, diagnoses in zip(tasks, results, strict=True):
            cache |= {name: (progress[name], diagnosis) for name, diagnosis in diagnoses.items()}
            progress_bar.advance(len(task.states))
    return {name: cache[name][1] for name in progress}


def without_counterparts(run: RunData, diagnoses: Mapping[str, Diagnosis]) -> dict[str, Diagnosis]:
    """Return the diagnoses of a run's own questions, which figures are computed over."""
    return {state.id: diagnoses[state.id] for state in run.states if state.id in diagnoses}


def by_scene(states: Sequence[QuestionState]) -> list[list[QuestionState]]:
    """Group questions by scene, largest group first."""
    scenes = defaultdict(list)
    for state in states:
        scenes[state.question.scene].append(state)
    return sorted(scenes.values(), key=len, reverse=True)


def _diagnose_scene(task: SceneTask) -> dict[str, Diagnosis]:
    """Diagnose the questions about one scene."""
    parts = task.parts
    visibility = _measure_visibility(task) if parts.faithful else {}
    return {
        state.id: diagnose(
            state,
            visibility.get(state.id) or Visibility((), diagnose_path(state.turns)),
            parts.config.image_size,
            truth=parts.image_stress.ground_truth(state.question),
            passive=parts.passive,
        )
        for state in task.states
    }


def _measure_visibility(task: SceneTask) -> dict[str, Visibility]:
    """Measure the visibility in all views of a scene. The result is empty if the scan cannot be read or rendered."""
    from render_agent.render.rasteriser.rasteriser import Rasteriser

    questions = [state.question for state in task.states]
    with_turns = [state for state in task.states if state.turns]
    first_question = questions[0]
    if not with_turns or first_question.scan is None or not first_question.scan.exists():
        return {}
    scenes = task.parts.scenes(questions)
    with closing(Rasteriser(threads=1)) as renderer:
        try:
            scene, space = scenes.get(first_question), partial(scenes.space, first_question)
            facts = None if task.facts is None else place_facts(task.facts, scene)
            size = task.parts.config.image_size
            return measure_scene(renderer, scene, space, facts, size, with_turns)
        except (SceneError, RenderError) as error:
            logger.warning("skipping diagnosis of scene %s: %s", first_question.scene, error)
            return {}


def num_processes(states: Collection[QuestionState]) -> int:
    """Return the number of processes to start for these questions, at least 1."""
    scenes = len({state.question.scene for state in states})
    processes = max(scenes // SCENES_PER_PROCESS, len(states) // QUESTIONS_PER_PROCESS)
    return max(1, min(count_cores(), processes, scenes))
