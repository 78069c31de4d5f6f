"""Diagnosis of a run: measures visibility per scene in parallel processes, then judges each question."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TypeVar
from weakref import WeakKeyDictionary

from render_agent.dialogue.state import QuestionState, Status
from render_agent.errors import RenderError, SceneError
from render_agent.report.diagnosis.cause import diagnose
from render_agent.report.diagnosis.model import Diagnosis
from render_agent.report.diagnosis.path import diagnose_path
from render_agent.report.diagnosis.visibility_pass import Visibility, measure_scene
from render_agent.runs.build import Parts
from render_agent.runs.read import RunData
from render_agent.scans.cache import SceneCache
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
    """The questions of a run about one scene, for one process."""

    parts: Parts
    states: Sequence[QuestionState]
    cached: Mapping[str, Diagnosis]
    """Diagnoses of questions that have not progressed since."""
    pending: Sequence[QuestionState]
    """The questions to diagnose."""
    facts: Facts | None
    """Ground truth of the scene, if known and needed."""


Task = TypeVar("Task", bound=SceneTask)

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
    states = run.dialogues if states is None else states
    tasks = [task for task in scene_tasks(run, states) if task.pending]
    pending = [state for task in tasks for state in task.pending]
    count = processes or num_processes(pending if run.parts.faithful else ())
    results = map_scenes(diagnose_scene, tasks, count, "measuring visibility")
    return cache_diagnoses(run, states, results)


def scene_tasks(
    run: RunData, states: Sequence[QuestionState], *, diagnose: bool = True
) -> list[SceneTask]:
    """Return one task per scene, the largest first."""
    scenes: dict[str, list[QuestionState]] = defaultdict(list)
    for state in states:
        scenes[state.question.scene].append(state)
    cache = _DIAGNOSED.get(run, {}) if diagnose else {}
    cached = {
        s.id: cache[s.id][1] for s in states if s.id in cache and cache[s.id][0] == _progress(s)
    }
    pending = [state for state in states if diagnose and state.id not in cached]
    facts = run.facts([state.question for state in pending]) if run.parts.faithful else {}
    _ = run.changed_scans  # warns of scans that are not read
    return [
        SceneTask(
            run.parts,
            group,
            {state.id: cached[state.id] for state in group if state.id in cached},
            [state for state in group if diagnose and state.id not in cached],
            facts.get(scene),
        )
        for scene, group in sorted(scenes.items(), key=lambda item: len(item[1]), reverse=True)
    ]


def map_scenes(
    function: Callable[[Task], dict[str, Diagnosis]],
    tasks: Sequence[Task],
    processes: int,
    title: str,
) -> dict[str, Diagnosis]:
    """Return the diagnoses from a call of `function` per scene, in parallel processes."""
    diagnoses: dict[str, Diagnosis] = {}
    with stage(title, sum(len(task.states) for task in tasks)) as progress_bar:
        results = map_in_processes(function, tasks, min(processes, len(tasks) or 1))
        for task, result in zip(tasks, results, strict=True):
            diagnoses |= result
            progress_bar.advance(len(task.states))
    return diagnoses


def cache_diagnoses(
    run: RunData, states: Sequence[QuestionState], diagnoses: Mapping[str, Diagnosis]
) -> dict[str, Diagnosis]:
    """Add new diagnoses to the cache of a run; return those of all the given questions."""
    cache = _DIAGNOSED.setdefault(run, {})
    cache |= {s.id: (_progress(s), diagnoses[s.id]) for s in states if s.id in diagnoses}
    return {state.id: cache[state.id][1] for state in states}


def _progress(state: QuestionState) -> Progress:
    return len(state.turns), state.status


def without_counterparts(run: RunData, diagnoses: Mapping[str, Diagnosis]) -> dict[str, Diagnosis]:
    """Return the diagnoses of a run's own questions, which figures are computed over."""
    return {state.id: diagnoses[state.id] for state in run.states if state.id in diagnoses}


def diagnose_scene(task: SceneTask, scenes: SceneCache | None = None) -> dict[str, Diagnosis]:
    """Return the diagnoses of the questions about one scene, cached or new."""
    parts = task.parts
    visibility = _measure_visibility(task, scenes) if parts.faithful else {}
    return dict(task.cached) | {
        state.id: diagnose(
            state,
            visibility.get(state.id) or Visibility((), diagnose_path(state.turns)),
            parts.config.image_size,
            truth=parts.image_stress.ground_truth(state.question),
            passive=parts.passive,
        )
        for state in task.pending
    }


def _measure_visibility(task: SceneTask, scenes: SceneCache | None) -> dict[str, Visibility]:
    """Measure the visibility in all views of a scene. The result is empty if the scan cannot be read or rendered."""
    from render_agent.render.rasteriser.rasteriser import Rasteriser

    with_turns = [state for state in task.pending if state.turns]
    question = task.states[0].question
    if not with_turns or question.scan is None or not question.scan.exists():
        return {}
    if scenes is None:
        scenes = task.parts.scenes([state.question for state in task.states])
    with closing(Rasteriser(threads=1)) as renderer:
        try:
            scene, space = scenes.get(question), partial(scenes.space, question)
            facts = None if task.facts is None else place_facts(task.facts, scene)
            size = task.parts.config.image_size
            return measure_scene(renderer, scene, space, facts, size, with_turns)
        except (SceneError, RenderError) as error:
            logger.warning("skipping diagnosis of scene %s: %s", question.scene, error)
            return {}


def num_processes(states: Collection[QuestionState]) -> int:
    """Return the number of processes to start for these questions, at least 1."""
    scenes = len({state.question.scene for state in states})
    processes = max(scenes // SCENES_PER_PROCESS, len(states) // QUESTIONS_PER_PROCESS)
    return max(1, min(count_cores(), processes, scenes))
