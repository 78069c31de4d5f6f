"""The diagnosis of a run: its scenes measured in several processes, its questions judged."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from weakref import WeakKeyDictionary

from render_agent.dialogue.state import QuestionState, Status
from render_agent.errors import RenderError, SceneError
from render_agent.report.diagnosis.judge import diagnose
from render_agent.report.diagnosis.model import Diagnosis
from render_agent.report.diagnosis.path import steps
from render_agent.report.diagnosis.visibility_pass import Visibility, measure_scene
from render_agent.runs.build import Parts
from render_agent.runs.read import RunData
from render_agent.tasks.ground_truth import Facts, known_facts, placed
from render_agent.util.display import stage
from render_agent.util.processes import cores, map_in_processes

logger = logging.getLogger(__name__)

SCENES_PER_PROCESS, QUESTIONS_PER_PROCESS = 8, 150
"""A further process is started for so many scenes or questions; it takes seconds until it works."""


Progress = tuple[int, Status]
"""Turns and status of a question: it is diagnosed anew if they have changed."""


@dataclass(frozen=True, eq=False)
class SceneTask:
    """The questions of a run about one scene, which one process diagnoses; facts: what is known of it."""

    parts: Parts
    states: Sequence[QuestionState]
    facts: Facts | None


_DIAGNOSED: WeakKeyDictionary[RunData, dict[str, tuple[Progress, Diagnosis]]] = WeakKeyDictionary()


def diagnose_run(
    run: RunData,
    processes: int | None = None,
    states: Sequence[QuestionState] | None = None,
) -> dict[str, Diagnosis]:
    """Return the diagnosis of every question of a run, by its id; also of a run in progress.

    A question is diagnosed once per `RunData`, and again after `reload` if it got on.
    processes: how many work at it, as many as are worth it unless given; their number changes nothing.
    They are spawned: a script that wants more than one calls this under `if __name__ == "__main__"`.
    A counterpart (--change) is judged by its own truth and its own room.
    states: those questions of the run that are diagnosed, all unless given. Where a scan is gone, or the views show
    something else (--pictures black, noise, shuffled) or nothing, the path alone is diagnosed.
    RunLogError where the log is damaged.
    """
    parts, known = run.parts, _DIAGNOSED.setdefault(run, {})
    states = run.states if states is None else states
    progress = {state.id: (len(state.turns), state.status) for state in states}
    new = [s for s in states if s.id not in known or known[s.id][0] != progress[s.id]]
    questions = [state.question for state in new]
    facts = known_facts(questions, run.config.annotations) if parts.faithful else {}
    tasks = [SceneTask(parts, own, facts.get(own[0].question.scene)) for own in by_scene(new)]
    with stage("measuring what the views of each scene showed", len(new)) as shown:
        count = min(processes or worthwhile(new if parts.faithful else ()), len(tasks) or 1)
        for task, found in zip(tasks, map_in_processes(_diagnosed, tasks, count), strict=True):
            known |= {name: (progress[name], diagnosis) for name, diagnosis in found.items()}
            shown.advance(len(task.states))
    return {name: known[name][1] for name in progress}


def by_scene(states: Sequence[QuestionState]) -> list[list[QuestionState]]:
    """Return the questions by scene, the scene with the most questions first."""
    scenes = defaultdict(list)
    for state in states:
        scenes[state.question.scene].append(state)
    return sorted(scenes.values(), key=len, reverse=True)


def _diagnosed(task: SceneTask) -> dict[str, Diagnosis]:
    """Return the diagnoses of the questions about one scene."""
    parts = task.parts
    visibility = _measured(task) if parts.faithful else {}
    return {
        state.id: diagnose(
            state,
            visibility.get(state.id) or Visibility((), steps(state.turns)),
            parts.config.image_size,
            truth=parts.picture_stress.truth(state.question),
            passive=parts.passive,
        )
        for state in task.states
    }


def _measured(task: SceneTask) -> dict[str, Visibility]:
    """Return what the views of a scene's questions showed; nothing if it cannot be read or drawn."""
    from render_agent.render.rasteriser.rasteriser import Rasteriser

    questions = [state.question for state in task.states]
    shown = [state for state in task.states if state.turns]
    first = questions[0]
    if not shown or first.scan is None or not first.scan.exists():
        return {}
    scenes = task.parts.scenes(questions)
    with closing(Rasteriser(threads=1)) as renderer:
        try:
            scene, space = scenes.get(first), partial(scenes.space, first)
            facts = None if task.facts is None else placed(task.facts, scene)
            size = task.parts.config.image_size
            return measure_scene(renderer, scene, space, facts, size, shown)
        except (SceneError, RenderError) as error:
            logger.warning("scene %s is not diagnosed: %s", first.scene, error)
            return {}


def worthwhile(states: Collection[QuestionState]) -> int:
    """Return how many processes are worth starting for some questions."""
    scenes = len({state.question.scene for state in states})
    worth = max(scenes // SCENES_PER_PROCESS, len(states) // QUESTIONS_PER_PROCESS)
    return max(1, min(cores(), worth, scenes))
