"""Starts, resumes, previews and executes runs, from options to results."""

from __future__ import annotations

import hashlib
import logging
import os
import platform
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, nullcontext, suppress
from dataclasses import replace
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from render_agent import __version__
from render_agent.agents.agent import Tools
from render_agent.dialogue.question import Question
from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.wording import general
from render_agent.engines.engine import Engine
from render_agent.engines.make_engine import EngineFactory, describe_engine, reject_code
from render_agent.engines.prices import find_price
from render_agent.engines.remote.batch_jobs import BatchJobs
from render_agent.engines.remote.remote_engine import RemoteEngine
from render_agent.engines.sight_check import CheckServers, check_servers
from render_agent.errors import SetupError, UsageError
from render_agent.options import AUTO, CHANGEABLE, OPTIONS, RunConfig, absolute_paths, flag_of
from render_agent.runs.build import (
    MakeViews,
    Parts,
    build,
    describe_choosing,
    make_engine,
    make_views,
)
from render_agent.runs.cost.budget import Budget, check_max_cost, price_of
from render_agent.runs.inputs import (
    QUESTIONS,
    add_machine,
    changed_error,
    check_loaded,
    input_hashes,
    machine_note,
    refuse_replaced,
    selection_inputs,
)
from render_agent.runs.log.caveats import question_notes, scene_kinds
from render_agent.runs.log.lines import questions_text
from render_agent.runs.log.lock import check_unlocked
from render_agent.runs.log.writer import RunLog, TurnLog
from render_agent.runs.phase_controller import Failures, Observer, PhaseController
from render_agent.runs.preflight import (
    check_continued,
    check_new,
    check_sight,
    packages,
    prompt_digest,
)
from render_agent.runs.read import NO_SCENES, RunData
from render_agent.runs.run_part import after_turn
from render_agent.runs.turn import TurnTaker
from render_agent.runs.workers.driver import dispatch
from render_agent.scans.cache import SceneCache
from render_agent.tasks.selection import question_files, undivided_questions
from render_agent.util.display import stage
from render_agent.util.interrupts import reraise
from render_agent.util.reasons import short_repr
from render_agent.util.safe_parse import to_plain
from render_agent.views.provider import ViewProvider

LOG = logging.getLogger(__name__)

DescribeEngine = Callable[[RunConfig], dict[str, Any]]

# packages whose versions are recorded in config.json
RECORDED_PACKAGES = ("numpy", "numba", "scipy", "torch", "transformers", "ray", "llguidance", "openai", "anthropic", "google-genai", "open3d", "open3d-cpu", "trimesh", "pyrender", "pillow")  # fmt: skip


class Run:
    """A run that is ready to start, with an open, locked log and matching states."""

    def __init__(
        self,
        parts: Parts,
        log: RunLog,
        questions: Sequence[Question],
        scenes: SceneCache | None = None,
    ) -> None:
        self.parts = parts
        self.config = parts.config
        self.log = log
        self.scenes = scenes or parts.scenes(questions)
        self.states = [parts.state(question, self.scenes) for question in questions]
        self.by_id = {state.id: state for state in self.states}

    @property
    def path(self) -> Path:
        return self.log.path

    def go(
        self,
        observer: Observer,
        make_engine: EngineFactory = make_engine,
        make_views: MakeViews = make_views,
    ) -> dict[str, Any]:
        """Run all active questions to completion, write the results and return them. Raises RunStoppedError.

        If the run has to stop, it can be resumed.
        """
        reuse: str | None = None
        if any(state.active for state in self.states):
            config = self.config
            play_here = partial(play, make_views=make_views)
            if not config.alone:
                digests = self.parts.recorded
                dispatch(config, self.states, self.log, observer, make_engine, play_here, digests)
            else:
                questions = [state.question for state in self.states]
                with stage(f"starting the engine {config.engine}", announce=True):
                    new_engine = make_engine(config, questions)
                    reraise()
                with closing(new_engine) as engine:
                    reuse = getattr(engine, "reuse", None)
                    self.log.add_start_check(getattr(engine, "start_check", None))
                    play_here(self.parts, engine, self.scenes, self.log, observer, self.states)
        folder = RunData(self.path)
        folder.turns = [turn for state in self.states for turn in state.turns]  # not read again
        run_results = folder.score(self.states, reuse=reuse)
        self.log.write_results(run_results)
        return run_results

    def close(self) -> None:
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
    """Run all active questions to completion in this process. Raises RunStoppedError."""
    config = parts.config
    num_batched_turns = 0 if engine.capabilities.sequential else config.num_batched_turns
    questions = [state.question for state in states]
    views = make_views(parts, scenes, log.images, questions)
    jobs = None
    if config.batch_jobs and num_batched_turns and isinstance(engine, RemoteEngine):
        jobs = BatchJobs(engine, log.images.folder)
    controller = PhaseController(
        turn_taker(parts, engine, views, log, questions),
        observer,
        Failures(config.max_failures, [state.question for state in states if state.active]),
        max_batched_turns=num_batched_turns,
        finish_together=None if config.finish_together == AUTO else int(config.finish_together),
        budget=Budget(parts.billing, config.max_cost, states),
        batched_engine=jobs,
    )
    with closing(jobs) if jobs else nullcontext():
        controller.run(states)


def turn_taker(
    parts: Parts, engine: Engine, views: ViewProvider, log: TurnLog, questions: Sequence[Question]
) -> TurnTaker:
    """Return the turn taker for the given questions, with its verifiers opened."""
    config, prompt = parts.config, parts.prompt
    verifiers = tuple(verifier.open(config, questions, engine) for verifier in parts.verifiers)
    check_loaded(parts, questions)
    tools = Tools(prompt, views, verifiers, config.seed)
    sides = after_turn(parts) if engine.capabilities.side_dialogues else ()
    return TurnTaker(engine, log, config, parts.agent, tools, sides, parts.pose_faults.drift)


def check(
    parts: Parts, describe: DescribeEngine = describe_engine
) -> tuple[list[Question], Mapping[str, Any]]:
    """Return the questions of a new run and the record of its engine. Loads no model and writes nothing."""
    questions = parts.questions()
    check_new(parts, questions)
    return questions, describe(parts.config)


def start_run(
    config: RunConfig,
    describe: DescribeEngine = describe_engine,
    check_servers: CheckServers = check_servers,
    *,
    reads_scan: bool = False,
) -> Run:
    parts = build(config)
    before = selection_inputs(parts)
    questions, engine = check(parts, describe)
    parts = replace(parts, price=price_of(config, engine["model"]))
    run_record = record(parts, questions, engine)
    refuse_replaced(before, run_record["sha256"])
    parts = replace(parts, recorded=run_record["sha256"])
    scenes = parts.scenes(questions)
    if reads_scan and config.ply is not None and not parts.blind:
        with stage(f"reading {Path(config.ply).name}", announce=True):
            scenes.get(questions[0])
    if checks := check_sight(parts, check_servers):
        run_record["sight_checks"] = checks
    log = RunLog.create(Path(config.output), "batched" if config.batch else "single", run_record)
    log.write_questions(questions)
    return Run(parts, log, questions, scenes)


def continued_config(folder: RunData, changes: Mapping[str, Any]) -> RunConfig:
    """Return the options with which a run would be resumed."""
    saved_config = folder.config
    for name, value in vars(saved_config.absolute()).items():
        if value != (path := getattr(saved_config, name)):
            raise UsageError(
                f"{folder.path / 'config.json'} sets {flag_of(name)} to {short_repr(path)}, which is not a plain"
                " absolute path. Start a new run."
            )
    changes = {**changes, **absolute_paths(changes)}
    if "workers" in changes:  # replaces saved devices
        changes = {"devices": (), **changes}
    elif "devices" in changes:
        changes["workers"] = OPTIONS["workers"].default
    effective_changes = {
        name: value for name, value in changes.items() if getattr(saved_config, name) != value
    }
    if unchangeable := sorted(effective_changes.keys() - CHANGEABLE):
        raise UsageError(
            f"{flag_of(unchangeable[0])} cannot change when resuming {folder.name} because it affects results."
            " Omit it, or start a new run."
        )
    return replace(saved_config, **effective_changes)


def resume_run(
    folder: RunData,
    changes: Mapping[str, Any],
    check_servers: CheckServers = check_servers,
    *,
    allow_code: bool = False,
) -> Run:
    """Read a run from its folder, with failed questions active again."""
    parts = _continued_parts(folder, changes)
    if not allow_code:
        reject_code(parts.config, str(folder.path / "config.json"))
    log = RunLog(folder.path)
    try:
        parts = replace(parts, recorded=folder.recorded)  # the log is read once it is locked
        questions = _continued_questions(folder)
        if not folder.has_questions:  # the run was killed before they were written
            log.write_questions(questions)
        run = Run(parts, log, questions)
        _replay_checked(folder, parts, run.states)
        changed: dict[str, Any] = {}
        if parts.price != folder.price:
            changed["price"] = to_plain(parts.price)
        if any(state.active for state in run.states):
            if checks := check_sight(parts, check_servers):
                changed["sight_checks"] = [*folder.sight_checks, *checks]
            machine = parts.engine.machine(parts.config)
            engine = add_machine(folder.record["engine"], machine)
            if engine != folder.record["engine"]:
                LOG.warning("%s", machine_note(engine))
                changed["engine"] = engine
        if changed:
            log.write_record(folder.record | changed)
    except BaseException:
        log.close()
        raise
    return run


def preview_resume(folder: RunData, changes: Mapping[str, Any]) -> tuple[Parts, list[Question]]:
    """Return the parts and questions of a run that would be resumed. Checks what `resume_run` does; writes nothing."""
    parts = _continued_parts(folder, changes)
    check_unlocked(folder.path)
    parts = replace(parts, recorded=folder.recorded)
    questions = _continued_questions(folder)
    turns = parts.config.max_turns
    states = [QuestionState(q, NO_SCENES, turns, blind=parts.blind) for q in questions]
    _replay_checked(folder, parts, states)
    return parts, questions


def _continued_parts(folder: RunData, changes: Mapping[str, Any]) -> Parts:
    config = continued_config(folder, changes)
    if commit := folder.record["engine"].get("revision"):  # the branch may have moved since
        config = replace(config, revision=commit)
    price = folder.price
    if "prices" in changes or "price" not in folder.record:
        price = find_price(folder.model, config.prices)
    check_max_cost(config, price, folder.model)
    parts = replace(build(config), price=price)
    packages(parts)  # fail early if one is missing
    return parts


def _continued_questions(folder: RunData) -> list[Question]:
    """Return the questions of a run, selected again if it was killed before they were written."""
    if folder.has_questions:
        if folder.changed_questions is not None:
            raise changed_error(folder.changed_questions.name, "question file", folder.name)
        return folder.questions
    questions = folder.parts.questions()
    digest = hashlib.sha256(questions_text(questions)).hexdigest()
    if folder.recorded.get(QUESTIONS, digest) != digest:
        raise SetupError(
            f"the questions that the options of {folder.name} select are not those that it started with. Restore"
            f" {', '.join(map(str, question_files(folder.config)))}, or start a new run."
        )
    return questions


def _replay_checked(folder: RunData, parts: Parts, states: Sequence[QuestionState]) -> None:
    """Apply the logged turns to states, make failed ones active again, and check the inputs of what is left."""
    folder.replay(states)
    for state in states:
        state.retry()
    active = [state.question for state in states if state.active]
    check_continued(folder, parts, [state.question for state in states], active)


def record(
    parts: Parts, questions: Sequence[Question], engine: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the content of `config.json` except its format: the options, and everything that the run depends on."""
    config, prompt = parts.config, parts.prompt
    wording, notes = prompt.wording, question_notes(config, questions, blind=parts.blind)
    if wording.sha256 != general().sha256:
        notes.append(f"prompt: {parts.model_name} provides its own wording")
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
            "prompt": prompt_digest(parts),
            QUESTIONS: hashlib.sha256(questions_text(questions)).hexdigest(),
            **(parts.recorded or input_hashes(parts, questions, engine)),
        },
        "price": to_plain(parts.price),
        **(
            {}
            if config.shard is None
            else {"selection": [q.id for q in undivided_questions(config)]}
        ),
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
    folder = Path(__file__).parent
    command = ["git", "-C", str(folder), "rev-parse", "HEAD"]
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return process.stdout.strip() or None
