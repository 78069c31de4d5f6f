"""The diagnosis of a run: its scenes watched in several processes, its questions judged."""

from __future__ import annotations

import logging
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

from render_agent.analysis.diagnosis.judge import diagnose
from render_agent.analysis.diagnosis.model import Diagnosis
from render_agent.analysis.diagnosis.visibility_cache import keep, key_of, read_kept
from render_agent.analysis.diagnosis.visibility_pass import (
    Shown,
    Watched,
    named_boxes,
    new_views,
    watch_scene,
)
from render_agent.config import RunConfig
from render_agent.dialogue.state import Question, QuestionState
from render_agent.errors import RenderError, SceneError
from render_agent.questions.ground_truth import Facts, known_facts, placed
from render_agent.questions.mentions import named_categories
from render_agent.runs.log.folder import RunFolder
from render_agent.runs.log.reading import read_states

logger = logging.getLogger(__name__)

SCENES_EACH = 8
"""A further process is started for so many scenes; it takes seconds until it works."""

PARTS = 4
"""Parts of the work for each process."""


@dataclass(frozen=True, eq=False)
class SceneTask:
    """One scene to be watched: a question about it, what is known of it, what its questions showed."""

    question: Question
    facts: Facts | None
    asked: tuple[Shown, ...]


def diagnose_run(
    folder: RunFolder,
    processes: int | None = None,
    states: Sequence[QuestionState] | None = None,
) -> dict[str, Diagnosis]:
    """Return the diagnosis of every question of a run, by its id; also of a run in progress.

    processes: how many work at it, as many as are worth it unless given; their number changes nothing.
    They are spawned: a script that wants more than one calls this under `if __name__ == "__main__"`.
    states: the run's questions, where they were read already. Where a scan is gone, or the views show
    something else (--pictures black, noise, shuffled) or nothing, the path alone is diagnosed. What the
    views showed is kept in the run's `report` folder and read from there where the log has not grown.
    RunLogError where the log is damaged.
    """
    config = folder.config
    states = read_states(folder) if states is None else states
    watched = _watched(folder, config, states, processes) if config.faithful else {}
    return {state.id: _judged(config, state, watched.get(state.id, Watched())) for state in states}


def kept_diagnoses(folder: RunFolder, states: Sequence[QuestionState]) -> dict[str, Diagnosis]:
    """Return those diagnoses of a run for which nothing has to be watched, by question id.

    These are the questions whose views, as `states` have them, were watched and kept before; all of
    them where nothing was shown, or something else than the question is about. Nothing is written.
    """
    config = folder.config
    if not config.faithful:
        return {state.id: _judged(config, state, Watched()) for state in states}
    known = _compared(folder, config, states)[0]
    return {
        state.id: _judged(config, state, known[state.id]) for state in states if state.id in known
    }


def _judged(config: RunConfig, state: QuestionState, watched: Watched) -> Diagnosis:
    truth = config.picture_stress.truth(state.question)
    return diagnose(state, watched, config.image_size, truth=truth, passive=config.passive)


def _watched(
    folder: RunFolder,
    config: RunConfig,
    states: Sequence[QuestionState],
    processes: int | None,
) -> dict[str, Watched]:
    """Return what the views of every question with a scan showed, watched now or kept from before."""
    known, keys, tasks = _compared(folder, config, states)
    before = len(known)
    for watched in _worked(config, tasks, processes):
        known |= watched
    if len(known) > before:
        keep(folder.path, {name: (keys[name], known[name]) for name in keys if name in known})
    return known


def _compared(
    folder: RunFolder, config: RunConfig, states: Sequence[QuestionState]
) -> tuple[dict[str, Watched], dict[str, str], list[SceneTask]]:
    """Return what is kept of the questions' views, the key of every question, and what is to be watched."""
    facts = known_facts([state.question for state in states], config.annotations)
    kept, known = read_kept(folder.path), {}
    by_scene: dict[str, list[tuple[Question, Shown]]] = defaultdict(list)
    keys = {}
    for state in states:
        question = state.question
        if question.scan is None or not question.scan.exists() or not state.turns:
            continue
        views = new_views([turn.views for turn in state.turns])
        shown = Shown(question.id, named_categories(question), views)
        keys[question.id] = key_of(shown, named_boxes(shown, facts.get(question.scene)))
        before = kept.get(question.id)
        if before is not None and before[0] == keys[question.id]:
            known[question.id] = before[1]
        else:
            by_scene[question.scene].append((question, shown))
    tasks = [
        SceneTask(entries[0][0], facts.get(scene), tuple(shown for _, shown in entries))
        for scene, entries in by_scene.items()
    ]
    return known, keys, tasks


def _worked(
    config: RunConfig, tasks: Sequence[SceneTask], processes: int | None
) -> Iterator[Mapping[str, Watched]]:
    """Give what each scene's questions showed, scene by scene, in order."""
    count = _worth(len(tasks)) if processes is None else processes
    if min(count, len(tasks)) <= 1:
        yield from _watch(config, tasks)
        return
    # by file, as those of one file of annotations are cheap to read together; a few parts for each
    # process, so that all end together
    ordered = sorted(tasks, key=lambda task: (str(task.question.scan), task.question.scene))
    size = -(-len(ordered) // (PARTS * count))
    parts = [ordered[first : first + size] for first in range(0, len(ordered), size)]
    # not forked: threads and compiled kernels of this process would not survive it
    with ProcessPoolExecutor(count, get_context("spawn")) as pool:
        for some in pool.map(_watch_part, [config] * len(parts), parts):
            yield from some


def _watch_part(config: RunConfig, tasks: Sequence[SceneTask]) -> list[Mapping[str, Watched]]:
    return list(_watch(config, tasks))


def _watch(config: RunConfig, tasks: Sequence[SceneTask]) -> Iterator[Mapping[str, Watched]]:
    """Give what the questions of each task showed; nothing of a scene that cannot be read or drawn."""
    from render_agent.render.rasteriser.renderer import Rasteriser

    renderer = Rasteriser(threads=1)
    questions = [task.question for task in tasks]
    scenes = config.picture_stress.scenes(config, questions, limit=0)  # one scene at a time
    try:
        for task in tasks:
            try:
                scene, space = scenes.get(task.question), scenes.space(task.question)
                facts = None if task.facts is None else placed(task.facts, scene)
                yield watch_scene(renderer, scene, space, facts, config.image_size, task.asked)
            except (SceneError, RenderError) as error:
                logger.warning("scene %s is not diagnosed: %s", task.question.scene, error)
                yield {}
    finally:
        renderer.close()


def _worth(scenes: int) -> int:
    """Return how many processes are worth starting."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min(available or 1, scenes // SCENES_EACH))
