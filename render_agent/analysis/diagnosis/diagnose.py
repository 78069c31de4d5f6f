"""The diagnosis of a run: its scenes measured in several processes, its questions judged.

What the views showed is cached in the run's report folder, so that each scene is measured once.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import partial
from multiprocessing import get_context
from multiprocessing.reduction import ForkingPickler
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct

from render_agent.analysis.diagnosis.judge import diagnose
from render_agent.analysis.diagnosis.model import Diagnosis, NamedBox, TurnDiagnosis
from render_agent.analysis.diagnosis.visibility_pass import (
    ShownViews,
    TurnVisibility,
    Visibility,
    boxes_by_name,
    measure_scene,
    named_boxes,
    new_views,
)
from render_agent.config import RunConfig
from render_agent.dialogue.state import Question, QuestionState, Seconds, View
from render_agent.errors import RenderError, RunLogError, SceneError
from render_agent.geometry.camera import Camera, MapCamera
from render_agent.questions.ground_truth import Facts, known_facts, placed
from render_agent.questions.mentions import named_categories
from render_agent.render.base import Renderer
from render_agent.runs.log.folder import RunFolder
from render_agent.runs.log.reader import read_states
from render_agent.scene.model import Scene
from render_agent.system.processes import cores
from render_agent.system.whole_files import json_lines, read_lines, write_whole
from render_agent.text.display import stage
from render_agent.text.safe_parse import decode, plain

logger = logging.getLogger(__name__)

CACHE_FILE = "report/diagnosis.jsonl"
"""Where a run folder has it."""

CACHE_FORMAT = 2
"""Raised where what is measured, or how, changes: the cache of an older version is then left aside."""

SCENES_PER_PROCESS, QUESTIONS_PER_PROCESS = 8, 150
"""A further process is started for so many scenes or questions; it takes seconds until it works."""

PARTS_PER_PROCESS = 16
"""The work of a process is divided into so many parts, so that all end together."""

SENT = (Camera, MapCamera, View, Seconds, Question, TurnDiagnosis, Diagnosis)
"""Of these a run has tens of thousands, which go to the processes that diagnose it, and back."""

WithScene = Callable[[Scene, Question, Renderer], None]
"""What else is done with a scene while it is there to be measured: given it, a question, a renderer."""

Kept = Mapping[str, tuple[str, Visibility]]
"""What the views of questions showed, behind the key that it holds for, by question."""

Task = TypeVar("Task", bound="Part")
Result = TypeVar("Result")


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


def write_cache(folder: Path, known: Kept) -> None:
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


@dataclass(frozen=True, eq=False)
class Part:
    """Some questions of a run, those of a scene together, which one process diagnoses.

    facts: what is known of their scenes. kept: what was found of them before.
    """

    config: RunConfig
    states: Sequence[QuestionState]
    facts: Mapping[str, Facts]
    kept: Kept


@dataclass(frozen=True, eq=False)
class Found:
    """The diagnoses of a part, by question id, what its views showed, and how many scenes were measured for that."""

    diagnoses: Mapping[str, Diagnosis]
    visibility: Kept
    measured: int = 0


def diagnose_run(
    folder: RunFolder,
    processes: int | None = None,
    states: Sequence[QuestionState] | None = None,
) -> dict[str, Diagnosis]:
    """Return the diagnosis of every question of a run, by its id; also of a run in progress.

    processes: how many work at it, as many as are worth it unless given; their number changes nothing.
    They are spawned: a script that wants more than one calls this under `if __name__ == "__main__"`.
    A counterpart (--change) is judged by its own truth and its own room.
    states: the run's questions, where they were read already. Where a scan is gone, or the views show
    something else (--pictures black, noise, shuffled) or nothing, the path alone is diagnosed. What the
    views showed is kept in the run's `report` folder and read from there where the log has not grown.
    RunLogError where the log is damaged.
    """
    states = read_states(folder) if states is None else states
    facts, kept = known_of(folder, states)
    new = [s.question for s in states if folder.config.faithful and s.id not in kept]
    count = processes or worthwhile(new)
    parts = parts_of(folder.config, states, facts, kept, count)
    words = "measuring what the views of each scene showed"
    with working(count) as pool:
        return gathered(folder, states, each_done(diagnosed, parts, words, pool))


def known_of(
    folder: RunFolder, states: Sequence[QuestionState]
) -> tuple[Mapping[str, Facts], Kept]:
    """Return what is known of the scenes of some questions, and what is kept of their views."""
    if not folder.config.faithful:
        return {}, {}
    return known_facts([s.question for s in states], folder.config.annotations), read_cache(
        folder.path
    )


def parts_of(
    config: RunConfig,
    states: Sequence[QuestionState],
    facts: Mapping[str, Facts],
    kept: Kept,
    processes: int,
) -> list[Part]:
    """Return the questions of a run in parts of about one size; those of a scene stay together."""
    scenes = defaultdict(list)
    for state in states:
        scenes[state.question.unchanged.scene].append(state)
    groups: list[list[QuestionState]] = [[] for _ in range(PARTS_PER_PROCESS * processes)]
    for own in sorted(scenes.values(), key=len, reverse=True):
        min(groups, key=len).extend(own)
    return [
        Part(
            config,
            group,
            {s.question.scene: facts[s.question.scene] for s in group if s.question.scene in facts},
            {state.id: kept[state.id] for state in group if state.id in kept},
        )
        for group in groups
        if group
    ]


def each_done(
    work: Callable[[Task], Result], parts: Sequence[Task], words: str, pool: Executor | None
) -> Iterator[Result]:
    """Give what `work` makes of every part, as it is done, and show how many questions are.

    pool: the processes that begin with it at once; where there is none it is done here, when it is asked for.
    """
    total = sum(len(part.states) for part in parts)
    if pool is None:
        return _counted(((len(part.states), work(part)) for part in parts), words, total)
    sizes = {pool.submit(work, part): len(part.states) for part in parts}
    return _counted(((sizes[done], done.result()) for done in as_completed(sizes)), words, total)


def _counted(done: Iterable[tuple[int, Result]], words: str, total: int) -> Iterator[Result]:
    with stage(words, total) as shown:
        for count, result in done:
            yield result
            shown.advance(count)


def diagnosed(part: Part, with_scene: WithScene | None = None) -> Found:
    """Return the diagnoses of a part. with_scene: called for each scene that is measured."""
    config, states = part.config, part.states
    visibility: dict[str, tuple[str, Visibility]] = {}
    tasks: list[SceneTask] = []
    if config.faithful:
        known, keys, tasks = _compare(config, states, part.facts, part.kept)
        for measured in _measure(config, tasks, with_scene):
            known |= measured
        visibility = {name: (keys[name], known[name]) for name in keys if name in known}
    return Found(_all_judged(config, states, visibility), visibility, len(tasks))


def gathered(
    folder: RunFolder, states: Sequence[QuestionState], parts: Iterable[Found]
) -> dict[str, Diagnosis]:
    """Return the diagnoses of all parts of a run in its order, and keep what was measured for them."""
    diagnoses: dict[str, Diagnosis] = {}
    visibility: dict[str, tuple[str, Visibility]] = {}
    measured = 0
    for found in parts:
        diagnoses |= found.diagnoses
        visibility |= found.visibility
        measured += found.measured
    if measured:
        ids = (state.id for state in states)
        write_cache(folder.path, {name: visibility[name] for name in ids if name in visibility})
    return {state.id: diagnoses[state.id] for state in states if state.id in diagnoses}


def cached_diagnoses(folder: RunFolder, states: Sequence[QuestionState]) -> dict[str, Diagnosis]:
    """Return those diagnoses of a run for which nothing has to be measured, by question id.

    These are the questions whose views, as `states` have them, were measured and kept before; all of
    them where nothing was shown, or something else than the question is about. Nothing is written.
    """
    config = folder.config
    if not config.faithful:
        return _all_judged(config, states, {})
    known, keys, _ = _compare(config, states, *known_of(folder, states))
    left = [state for state in states if state.id in known]
    return _all_judged(config, left, {name: (keys[name], known[name]) for name in known})


def _all_judged(
    config: RunConfig, states: Iterable[QuestionState], visibility: Kept
) -> dict[str, Diagnosis]:
    """Return the diagnoses of some questions by what their views showed, as far as that is known."""
    return {
        state.id: diagnose(
            state,
            visibility[state.id][1] if state.id in visibility else Visibility(),
            config.image_size,
            truth=config.picture_stress.truth(state.question),
            passive=config.passive,
        )
        for state in states
    }


def _compare(
    config: RunConfig,
    states: Sequence[QuestionState],
    facts: Mapping[str, Facts],
    kept: Kept,
) -> tuple[dict[str, Visibility], dict[str, str], list[SceneTask]]:
    """Return what is kept of the questions' views, the key of every question, and what is to be measured."""
    shown_in: dict[str, list[tuple[Question, ShownViews]]] = defaultdict(list)
    for state in states:
        question = state.question
        if question.scan is None or not question.scan.exists() or not state.turns:
            continue
        views = new_views([turn.views for turn in state.turns])
        shown = ShownViews(question.id, named_categories(question), views)
        shown_in[question.scene].append((question, shown))
    known, keys, tasks = {}, {}, []
    for scene, entries in shown_in.items():
        there = facts.get(scene)
        boxes = boxes_by_name(there, [shown for _, shown in entries])
        unknown = []
        for about, shown in entries:
            name = shown.question_id
            keys[name] = cache_key(shown, named_boxes(shown, boxes))
            before = kept.get(name)
            if before is not None and before[0] == keys[name]:
                known[name] = before[1]
            else:
                unknown.append((about, shown))
        if unknown:
            tasks.append(SceneTask(unknown[0][0], there, tuple(shown for _, shown in unknown)))
    return known, keys, tasks


@contextmanager
def working(count: int) -> Iterator[Executor | None]:
    """Give processes that work for this one, which get ready at once; None where it is to work alone.

    They are not forked: threads and compiled kernels of this process would not survive it.
    """
    if count == 1:
        yield None
        return
    send_by_fields()
    pool = ProcessPoolExecutor(count, get_context("spawn"))
    try:
        for _ in range(count):
            pool.submit(get_ready)
        yield pool
    except BaseException:
        pool.shutdown(cancel_futures=True)
        raise
    pool.shutdown(wait=False)  # they end while this process goes on


def send_by_fields() -> None:
    """Have this process send objects of SENT to others as calls with their fields.

    Dataclasses with slots look their fields up anew for each object, which takes five times as long.
    """
    for kind in SENT:
        values = attrgetter(*(field.name for field in fields(kind)))
        ForkingPickler.register(kind, partial(_as_call, values))


def _as_call(values: Callable[[Any], tuple[Any, ...]], sent: object) -> tuple[Any, ...]:
    return type(sent), values(sent)


def get_ready() -> None:
    """Load what a scene is measured with, in a process that has nothing to do yet."""
    from render_agent.render.rasteriser.renderer import compile_kernels

    send_by_fields()
    compile_kernels("mesh")


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
                scene, space = scenes.get(task.question), partial(scenes.space, task.question)
                facts = None if task.facts is None else placed(task.facts, scene)
                if with_scene is not None:
                    with_scene(scene, task.question, renderer)
                yield measure_scene(renderer, scene, space, facts, config.image_size, task.shown)
            except (SceneError, RenderError) as error:
                logger.warning("scene %s is not diagnosed: %s", task.question.scene, error)
                yield {}
    finally:
        renderer.close()


def worthwhile(questions: Collection[Question]) -> int:
    """Return how many processes are worth starting for some questions."""
    scenes = len({question.scene for question in questions})
    worth = max(scenes // SCENES_PER_PROCESS, len(questions) // QUESTIONS_PER_PROCESS)
    return max(1, min(cores(), worth, scenes))
