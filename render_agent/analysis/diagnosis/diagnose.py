"""The diagnosis of a run: its scenes measured in several processes, its questions judged.

What the views showed is cached in the run's report folder, so that each scene is measured once.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from msgspec import Struct

from render_agent.analysis.diagnosis.judge import diagnose
from render_agent.analysis.diagnosis.model import Diagnosis, NamedBox
from render_agent.analysis.diagnosis.visibility_pass import (
    ShownViews,
    TurnVisibility,
    Visibility,
    measure_scene,
    named_boxes,
    new_views,
)
from render_agent.config import RunConfig
from render_agent.dialogue.state import Question, QuestionState
from render_agent.errors import RenderError, RunLogError, SceneError
from render_agent.questions.ground_truth import Facts, known_facts, placed
from render_agent.questions.mentions import named_categories
from render_agent.render.base import Renderer
from render_agent.runs.log.folder import RunFolder
from render_agent.runs.log.pairs import never_shown
from render_agent.runs.log.reader import read_states
from render_agent.scene.model import Scene
from render_agent.system.whole_files import json_lines, read_lines, write_whole
from render_agent.text.display import stage
from render_agent.text.safe_parse import decode, plain

logger = logging.getLogger(__name__)

CACHE_FILE = "report/diagnosis.jsonl"
"""Where a run folder has it."""

CACHE_FORMAT = 2
"""Raised where what is measured, or how, changes: the cache of an older version is then left aside."""

SCENES_PER_PROCESS = 8
"""A further process is started for so many scenes; it takes seconds until it works."""

PARTS_PER_PROCESS = 4
"""The work of a process is divided into so many parts, so that all end together."""


WithScene = Callable[[Scene, Question, Renderer], None]
"""What else is done with a scene while it is there to be measured: given it, a question, a renderer."""


class CachedLine(Struct, frozen=True):
    """A line of what is kept: of the question `id`, whose views and boxes hash to `key`."""

    id: str
    key: str
    boxes: tuple[NamedBox, ...]
    turns: tuple[TurnVisibility, ...]


def cache_key(shown: ShownViews, boxes: Iterable[NamedBox] | None) -> str:
    """Return what a question's views and named boxes hash to: what is kept holds for the same key.

    boxes: those that are named, as the files have them; None where the scene is not available.
    """
    views = [
        [(view.number, view.kind, plain(view.camera)) for view in turn] for turn in shown.views
    ]
    known = None if boxes is None else plain(tuple(boxes))
    text = json.dumps([CACHE_FORMAT, shown.named, views, known])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def read_cache(folder: Path) -> dict[str, tuple[str, Visibility]]:
    """Return what is kept, with its key, by question; nothing where it cannot be read."""
    file = folder / CACHE_FILE
    if not file.is_file():
        return {}
    try:
        lines: list[CachedLine] = read_lines(file, lambda line: decode(line, CachedLine))[0]
    except RunLogError as error:
        logger.warning("%s is left aside: %s", file, error)
        return {}
    return {line.id: (line.key, Visibility(line.boxes, line.turns)) for line in lines}


def write_cache(folder: Path, known: Mapping[str, tuple[str, Visibility]]) -> None:
    """Write what was found; where the folder cannot be written nothing is kept."""
    lines = (
        CachedLine(name, key, visibility.boxes, visibility.turns)
        for name, (key, visibility) in known.items()
    )
    try:
        write_whole(folder / CACHE_FILE, json_lines(lines), durable=False)
    except RunLogError as error:
        logger.warning("the diagnosis is not kept: %s", error)


@dataclass(frozen=True, eq=False)
class SceneTask:
    """One scene to be measured: a question about it, what is known of it, what its questions showed."""

    question: Question
    facts: Facts | None
    shown: tuple[ShownViews, ...]


def diagnose_run(
    folder: RunFolder,
    processes: int | None = None,
    states: Sequence[QuestionState] | None = None,
    *,
    pool: Executor | None = None,
    with_scene: WithScene | None = None,
) -> dict[str, Diagnosis]:
    """Return the diagnosis of every question of a run, by its id; also of a run in progress.

    processes: how many work at it, as many as are worth it unless given; their number changes nothing.
    They are spawned: a script that wants more than one calls this under `if __name__ == "__main__"`.
    A counterpart (--change) is judged by its own truth and its own room, what it was shown before that changed by
    the room as it was; one that was over before then is left out.
    states: the run's questions, where they were read already. pool: processes to do it in, which are
    not ended. with_scene: called for each scene that is measured. Where a scan is gone, or the views show
    something else (--pictures black, noise, shuffled) or nothing, the path alone is diagnosed. What the
    views showed is kept in the run's `report` folder and read from there where the log has not grown.
    RunLogError where the log is damaged.
    """
    config = folder.config
    states = _judgeable(read_states(folder) if states is None else states)
    measure = partial(_measure_all, config, processes=processes, pool=pool, with_scene=with_scene)
    visibility = _visibility(folder, config, states, measure) if config.faithful else {}
    return {
        state.id: _judged(config, state, visibility.get(state.id, Visibility())) for state in states
    }


def cached_diagnoses(folder: RunFolder, states: Sequence[QuestionState]) -> dict[str, Diagnosis]:
    """Return those diagnoses of a run for which nothing has to be measured, by question id.

    These are the questions whose views, as `states` have them, were measured and kept before; all of
    them where nothing was shown, or something else than the question is about. Nothing is written.
    """
    config, states = folder.config, _judgeable(states)
    if not config.faithful:
        return {state.id: _judged(config, state, Visibility()) for state in states}
    known = _whole(states, _compare(folder, config, states)[0])
    return {
        state.id: _judged(config, state, known[state.id]) for state in states if state.id in known
    }


def _judgeable(states: Sequence[QuestionState]) -> list[QuestionState]:
    return [state for state in states if not never_shown(state)]


def _before(state: QuestionState) -> str | None:
    """Return the name of what was shown before the room changed, None where it did not change in the midst."""
    change = state.question.change
    return f"{state.id} before the change" if change is not None and change.at else None


def _whole(
    states: Iterable[QuestionState], known: Mapping[str, Visibility]
) -> dict[str, Visibility]:
    """Return what the views of each question showed, with those from before its room changed, where it did."""
    return {
        state.id: known[state.id].after(known[name]) if name else known[state.id]
        for state in states
        if (name := _before(state)) is None or name in known
        if state.id in known
    }


def _judged(config: RunConfig, state: QuestionState, visibility: Visibility) -> Diagnosis:
    truth = config.picture_stress.truth(state.question)
    return diagnose(state, visibility, config.image_size, truth=truth, passive=config.passive)


def _visibility(
    folder: RunFolder,
    config: RunConfig,
    states: Sequence[QuestionState],
    measure: Callable[[Sequence[SceneTask]], Iterable[tuple[int, Mapping[str, Visibility]]]],
) -> dict[str, Visibility]:
    """Return what the views of every question with a scan showed, measured now or kept from before."""
    known, keys, tasks = _compare(folder, config, states)
    before = len(known)
    with stage("measuring what the views of each scene showed", len(tasks)) as measuring:
        for scenes, visibility in measure(tasks):
            known |= visibility
            measuring.advance(scenes)
    if len(known) > before:
        write_cache(
            folder.path, {name: (keys[name], known[name]) for name in keys if name in known}
        )
    return _whole(states, known)


def _compare(
    folder: RunFolder, config: RunConfig, states: Sequence[QuestionState]
) -> tuple[dict[str, Visibility], dict[str, str], list[SceneTask]]:
    """Return what is kept of the questions' views, the key of every question, and what is to be measured."""
    rooms = [q for state in states for q in (state.question, state.question.unchanged)]
    facts = known_facts(rooms, config.annotations)
    kept, known = read_cache(folder.path), {}
    by_scene: dict[str, list[tuple[Question, ShownViews]]] = defaultdict(list)
    keys = {}
    for state in states:
        question = state.question
        if question.scan is None or not question.scan.exists() or not state.turns:
            continue
        views = new_views([turn.views for turn in state.turns])
        parts = {question.id: (question, views)}
        if name := _before(state):
            at = question.changed_at
            parts = {
                name: (question.unchanged, views[:at]),
                question.id: (question, ((),) * at + views[at:]),
            }
        for name, (about, part) in parts.items():
            shown = ShownViews(name, named_categories(about), part)
            keys[name] = cache_key(shown, named_boxes(shown, facts.get(about.scene)))
            before = kept.get(name)
            if before is not None and before[0] == keys[name]:
                known[name] = before[1]
            else:
                by_scene[about.scene].append((about, shown))
    tasks = [
        SceneTask(entries[0][0], facts.get(scene), tuple(shown for _, shown in entries))
        for scene, entries in by_scene.items()
    ]
    return known, keys, tasks


def _measure_all(
    config: RunConfig,
    tasks: Sequence[SceneTask],
    *,
    processes: int | None,
    pool: Executor | None,
    with_scene: WithScene | None,
) -> Iterator[tuple[int, Mapping[str, Visibility]]]:
    """Give what the questions of some scenes showed, and how many scenes these are, as they are done."""
    count = _worthwhile(len(tasks)) if processes is None else processes
    if min(count, len(tasks)) <= 1:
        yield from ((1, visibility) for visibility in _measure(config, tasks, with_scene))
        return
    # by file, as those of one file of annotations are cheap to read together; a few parts for each
    # process, so that all end together
    ordered = sorted(tasks, key=lambda task: (str(task.question.scan), task.question.scene))
    size = -(-len(ordered) // (PARTS_PER_PROCESS * count))
    parts = [ordered[first : first + size] for first in range(0, len(ordered), size)]
    with nullcontext(pool) if pool else spawned(count) as workers:
        for done in as_completed(
            [workers.submit(_measure_part, config, with_scene, part) for part in parts]
        ):
            yield done.result()


def spawned(count: int) -> ProcessPoolExecutor:
    """Return a pool of processes, each started when there is work for it.

    They are not forked: threads and compiled kernels of this process would not survive it.
    """
    return ProcessPoolExecutor(count, get_context("spawn"))


def _measure_part(
    config: RunConfig, with_scene: WithScene | None, tasks: Sequence[SceneTask]
) -> tuple[int, Mapping[str, Visibility]]:
    found: dict[str, Visibility] = {}
    for visibility in _measure(config, tasks, with_scene):
        found |= visibility
    return len(tasks), found


def _measure(
    config: RunConfig, tasks: Sequence[SceneTask], with_scene: WithScene | None
) -> Iterator[Mapping[str, Visibility]]:
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
                if with_scene is not None:
                    with_scene(scene, task.question, renderer)
                yield measure_scene(renderer, scene, space, facts, config.image_size, task.shown)
            except (SceneError, RenderError) as error:
                logger.warning("scene %s is not diagnosed: %s", task.question.scene, error)
                yield {}
    finally:
        renderer.close()


def _worthwhile(scenes: int) -> int:
    """Return how many processes are worth starting."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min(available or 1, scenes // SCENES_PER_PROCESS))
