"""Start, resume, preview and carry out a run: from its options to its results."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from render_agent import __version__
from render_agent.agents.agent import Tools
from render_agent.dialogue.chat import Message
from render_agent.dialogue.probe import ProbePlan, keys_of
from render_agent.dialogue.question import Question
from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.wording import general
from render_agent.engines.engine import Engine
from render_agent.engines.make_engine import MakeEngine, describe_engine
from render_agent.errors import UsageError
from render_agent.options import AUTO, CHANGEABLE, OPTIONS, RunConfig, absolute_paths
from render_agent.render.start_pose import refuse_outside
from render_agent.runs.build import (
    MakeViews,
    Parts,
    build,
    describe_choosing,
    make_engine,
    make_views,
)
from render_agent.runs.failures import Failures
from render_agent.runs.log.writer import RunLog, TurnLog
from render_agent.runs.phase_controller import Observer, PhaseController
from render_agent.runs.preflight import (
    check_choices,
    check_continued,
    check_new,
    input_hashes,
    packages,
)
from render_agent.runs.read import RunData
from render_agent.runs.turn import TurnTaker
from render_agent.runs.workers.driver import dispatch
from render_agent.scans.cache import SceneCache
from render_agent.tasks.notes import question_notes, scene_kinds
from render_agent.util.display import stage
from render_agent.util.interrupts import raise_again
from render_agent.views.free_views import FreeViews
from render_agent.views.picture_store import Pictures

DescribeEngine = Callable[[RunConfig], dict[str, Any]]

RECORDED_PACKAGES = ("numpy", "numba", "scipy", "torch", "transformers", "ray", "llguidance", "openai", "open3d", "open3d-cpu", "trimesh", "pyrender", "pillow")  # fmt: skip
"""Packages whose versions a run records."""


class Run:
    """One run, ready to go: its log is open and locked, its states are as the log has them."""

    def __init__(
        self,
        parts: Parts,
        log: RunLog,
        questions: Sequence[Question],
        scenes: SceneCache | None = None,
    ) -> None:
        self.parts = parts
        self.config = config = parts.config
        self.log = log
        self.scenes = scenes or parts.scenes(questions)
        self.states = [
            QuestionState(q, self.scenes, config.max_turns, blind=parts.blind) for q in questions
        ]
        self.by_id = {state.id: state for state in self.states}

    @property
    def max_batched_turns(self) -> int:
        """The batched turns, never more than there are turns."""
        return min(self.config.max_batched_turns, self.config.max_turns)

    @property
    def path(self) -> Path:
        """The run folder."""
        return self.log.path

    def go(
        self,
        observer: Observer,
        make_engine: MakeEngine = make_engine,
        make_views: MakeViews = make_views,
    ) -> dict[str, Any]:
        """Take every active question to its end, write the results and return them.

        make_engine, make_views: make what answers and what draws; called only where a question is
        active.
        SetupError, EngineError or RunLogError where the run has to stop; it can be continued.
        """
        reuse: str | None = None
        if any(state.active for state in self.states):
            config = self.config
            play_here = partial(play, make_views=make_views)
            if not config.alone:
                dispatch(config, self.states, self.log, observer, make_engine, play_here)
            else:
                questions = [state.question for state in self.states]
                with stage(f"starting the engine {config.engine}", announced=True):
                    made = make_engine(config, questions)
                    raise_again()
                with closing(made) as engine:
                    reuse = getattr(engine, "reuse", None)
                    play_here(self.parts, engine, self.scenes, self.log, observer, self.states)
        run_results = RunData(self.path).score(self.states, reuse=reuse)
        self.log.write_results(run_results)
        return run_results

    def close(self) -> None:
        """Close and unlock the run folder."""
        self.log.close()


def play(
    parts: Parts,
    engine: Engine,
    scenes: SceneCache,
    log: TurnLog,
    observer: Observer,
    states: Sequence[QuestionState],
    make_views: MakeViews,
) -> None:
    """Take every active question to its end in this process.

    EngineError or RunLogError where that is impossible.
    """
    config, prompt = parts.config, parts.prompt
    batched = 0 if engine.capabilities.one_dialogue else config.max_batched_turns
    questions = [state.question for state in states]
    views = make_views(parts, scenes, log.pictures, questions)
    verifiers = tuple(verifier.open(config, questions, engine) for verifier in parts.verifiers)
    probe = None
    if config.probe and engine.capabilities.probes:
        probe = ProbePlan(keys_of(config.probe, free=parts.free), prompt.wording)
    tools = Tools(prompt, views, verifiers, config.seed)
    controller = PhaseController(
        TurnTaker(engine, log, config, parts.agent, tools, probe),
        observer,
        Failures(config.max_failures, [state.question for state in states if state.active]),
        max_batched_turns=min(batched, config.max_turns),
        finish_together=None if config.finish_together == AUTO else int(config.finish_together),
    )
    controller.run(states)


@dataclass(frozen=True)
class Preview:
    """What a run would begin with; pictures lie in `folder`.

    bytes_a_pixel: of the pictures drawn. seconds_a_view: of drawing another view of that scene.
    """

    questions: list[Question]
    messages: list[Message]
    folder: Path
    bytes_a_pixel: float = 0.0
    seconds_a_view: float = 0.0


def preview(parts: Parts, folder: Path) -> Preview:
    """Return the chosen questions and the first prompt, its views drawn into `folder`.

    SetupError, SceneError or RenderError where even that is impossible. No model is loaded.
    """
    config = parts.config
    questions = replace(parts, config=replace(config, allow_missing=True)).questions()
    check_choices(parts, questions, at_hand=False)
    scenes, pictures = parts.scenes(questions), Pictures(folder)
    first = next((question for question in questions if question.scan is not None), questions[0])
    views = make_views(parts, scenes, pictures, [first])
    observation = views.observe(QuestionState(first, scenes, config.max_turns, blind=parts.blind))
    began = time.perf_counter()
    if isinstance(views, FreeViews):
        views.viewer.ego(scenes.get(first), observation.camera)
    seconds = time.perf_counter() - began
    views.close()
    pictures.close()
    messages = parts.prompt.opening(first, observation.views, observation.camera)
    drawn = [folder / view.file for view in observation.views]
    pixels = len(drawn) * config.image_size[0] * config.image_size[1]
    stored = sum(file.stat().st_size for file in drawn)
    return Preview(questions, messages, folder, stored / pixels if pixels else 0.0, seconds)


def check(
    parts: Parts, describe: DescribeEngine = describe_engine
) -> tuple[list[Question], Mapping[str, Any]]:
    """Return the questions of a new run and what is recorded of its engine; nothing is written.

    SetupError where something is missing for the run. No model is loaded.
    """
    questions = parts.questions()
    check_new(parts, questions)
    return questions, describe(parts.config)


def start_run(
    config: RunConfig, describe: DescribeEngine = describe_engine, *, reads_scan: bool = False
) -> Run:
    """Return a new run in a new folder. SetupError where something is missing for it.

    describe: gives what is recorded of the engine. reads_scan: whether the scan of the one question that
    was typed is read before there is a folder; SceneError where it cannot be, as such a run could never go on.
    """
    parts = build(config)
    questions, engine = check(parts, describe)
    scenes = parts.scenes(questions)
    if reads_scan and config.ply is not None and not parts.blind:
        with stage(f"reading {Path(config.ply).name}", announced=True):
            refuse_outside(scenes.get(questions[0]), config.start)
    log = RunLog.create(
        Path(config.output),
        "batched" if config.batch else "single",
        record(parts, questions, engine),
    )
    log.write_questions(questions)
    return Run(parts, log, questions, scenes)


def continued_config(folder: RunData, changes: Mapping[str, Any]) -> RunConfig:
    """Return the options that a run would go on with.

    changes: options that differ from the saved ones. UsageError where one would change results;
    RunLogError where the folder is edited.
    """
    saved = folder.config
    changes = {**changes, **absolute_paths(changes)}
    if "workers" in changes:  # it takes the place of saved devices
        changes = {"devices": (), **changes}
    elif "devices" in changes:
        changes["workers"] = OPTIONS["workers"].default
    differing = {name: value for name, value in changes.items() if getattr(saved, name) != value}
    if fixed := sorted(differing.keys() - CHANGEABLE):
        flag = "--" + fixed[0].replace("_", "-")
        raise UsageError(
            f"{flag} would change the results of {folder.name}: a run goes on with its saved options;"
            f" leave {flag} out, or start a new run"
        )
    return replace(saved, **differing)


def resume_run(folder: RunData, changes: Mapping[str, Any]) -> Run:
    """Return a run read back from its folder, its failed questions active again.

    changes: options that differ from the saved ones. UsageError where one would change results;
    RunLogError where the folder is locked, edited or damaged; SetupError where a scan has changed.
    """
    parts = build(continued_config(folder, changes))
    packages(parts)  # refused here, where one is gone
    log = RunLog(folder.path)
    try:
        if folder.has_questions:
            questions = folder.questions
        else:  # killed before they were written
            questions = folder.parts.questions()
            log.write_questions(questions)
        run = Run(parts, log, questions)
        folder.replay(run.states)
        for state in run.states:
            state.retry()
        active = [state.question for state in run.states if state.active]
        check_continued(folder, parts, questions, active)
    except BaseException:
        log.close()
        raise
    return run


def record(
    parts: Parts, questions: Sequence[Question], engine: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the content of `config.json` beside its format: the options, and what the run depends on."""
    config, prompt = parts.config, parts.prompt
    wording, notes = prompt.wording, question_notes(config, questions, blind=parts.blind)
    if wording.sha256 != general().sha256:
        notes.append(f"prompt: {parts.model_name} brought its own wording")
    return {
        "program": __version__,
        "commit": _commit(),
        "fingerprint": config.fingerprint,
        "config": config.to_json(),
        "engine": dict(engine),
        "wording": {
            "model": None if wording.is_general else parts.model_name,
            "version": wording.version,
            "sha256": wording.sha256,
        },
        "choosing": describe_choosing(parts, questions),
        "notes": notes,
        "scenes": scene_kinds(questions),
        "versions": _versions(),
        "packages": packages(parts, questions),
        "machine": {
            "system": platform.platform(),
            "processor": platform.machine(),
            "cores": os.cpu_count(),
            "python": platform.python_version(),
        },
        "sha256": {
            "prompt": hashlib.sha256(prompt.instructions.encode()).hexdigest(),
            **input_hashes(parts, questions),
        },
    }


@cache
def _versions() -> dict[str, str]:
    versions = {}
    for package in RECORDED_PACKAGES:
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    return versions


@cache
def _commit() -> str | None:
    here = Path(__file__).parent
    command = ["git", "-C", str(here), "rev-parse", "HEAD"]
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return process.stdout.strip() or None
