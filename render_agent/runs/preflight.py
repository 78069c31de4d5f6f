"""The preflight of a run: one list of its choices is checked, and the files that they read recorded or compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from render_agent import registry
from render_agent.config import RunConfig
from render_agent.config.choice import Choice, sha256
from render_agent.dialogue.state import Question
from render_agent.engines.registry import check_model, engine_choice
from render_agent.errors import SetupError
from render_agent.extras import require
from render_agent.questions.input_files import annotation_files
from render_agent.questions.selection import is_file_of_questions, question_files
from render_agent.render.registry import check_renderer
from render_agent.render.start_pose import parse_start
from render_agent.runs.disk_space import refuse_a_full_disk
from render_agent.runs.workers.cluster import check_ray
from render_agent.scene.formats.registry import require_readers

if TYPE_CHECKING:
    from render_agent.runs.log.folder import RunFolder


class Machine(Choice):
    """What a run needs of the machine: readers, installed packages, loggers, a renderer, Ray; and a start to begin at."""

    def check(self, config: RunConfig, questions: Sequence[Question]) -> None:
        """Raise UsageError where the start cannot be read, SetupError where a library or package is not installed."""
        parse_start(config.start)
        require_readers(q.scan for q in questions if q.scan is not None and not config.blind)
        packages(config)
        for name in config.log_to:
            registry.load("logger", name)
            if name in registry.built_in("logger"):
                require(f"--log-to {name}", name)

    def check_at_hand(self, config: RunConfig) -> None:
        """Raise SetupError where Ray or a library of the renderer is needed and not at hand."""
        check_ray(config)
        if not config.blind:
            check_renderer(config.renderer)


def choices(config: RunConfig) -> tuple[Choice, ...]:
    """Return the choices of a run, in the order in which they are checked."""
    return (
        Machine(),
        config.picture_stress,
        config.view_policy,
        config.toolset,
        *config.verifiers,
        engine_choice(config),
    )


def check_new(config: RunConfig, questions: Sequence[Question]) -> None:
    """Raise SetupError or UsageError where something is missing for a new run; nothing is written."""
    check_choices(config, questions, at_hand=True)
    refuse_a_full_disk(config, questions)


def check_choices(config: RunConfig, questions: Sequence[Question], *, at_hand: bool) -> None:
    """Raise SetupError or UsageError where something is missing for a choice of a run.

    questions: those that are still to be asked. at_hand: whether models and clusters have to be at hand.
    """
    for choice in choices(config):
        choice.check(config, questions)
        if at_hand:
            choice.check_at_hand(config)


def input_hashes(
    config: RunConfig, questions: Sequence[Question]
) -> dict[str, dict[str, str | None]]:
    """Return what `config.json` holds of the files that a run reads: their SHA-256, by section and name."""
    hashes: dict[str, dict[str, str | None]] = {
        "questions": {str(file): sha256(file) for file in question_files(config)},
        "annotations": {file.name: file.digest for file in annotation_files(config, questions)},
        "scans": {},
        "verifiers": {},
    }
    for choice in choices(config):
        for file in choice.inputs(config, questions):
            hashes[file.section][file.name] = file.digest
    return hashes


def check_continued(
    folder: RunFolder, config: RunConfig, questions: Sequence[Question], active: Sequence[Question]
) -> None:
    """Raise SetupError where a run cannot go on: something is missing, or a file has changed since.

    questions: all of the run. active: those that are still to be asked.
    """
    if not active:
        return
    shown = questions if config.picture_stress.reads_all_scans else active
    recorded = folder.record["sha256"]
    gone = set(recorded.get("verifiers", ()))
    for choice in choices(config):
        files = list(choice.inputs(config, shown))
        if not files:  # those that are what they were, were checked when the run began
            choice.check(config, shown)
            choice.check_at_hand(config)
        for file in files:
            gone.discard(file.name)
            known = recorded.get(file.section)
            if known is not None and file.differs(known):
                raise _differs(file.name, file.kind, folder)
    if gone:
        raise _differs(min(gone), "file of a verifier", folder)
    check_model(config, folder.record["engine"], folder.name)


def packages(config: RunConfig) -> dict[str, str]:
    """Return the package, with its version, of every part of a run that is none of the program's own.

    By what it is, such as "engine mine". SetupError where one is not installed or cannot be imported.
    """
    versions = {}
    for kind, name in _parts(config):
        if package := registry.package(kind, name):
            registry.load(kind, name)
            versions[f"{kind} {name}"] = package
    return versions


def _parts(config: RunConfig) -> Iterator[tuple[registry.Kind, str]]:
    """Give the parts of a run, by kind and name."""
    yield "engine", config.engine
    yield "renderer", config.renderer
    for name in config.kinds:
        yield "kind of view", name
    # A file of questions may be gone when its run goes on: they are in the run folder.
    is_part = config.benchmark in registry.names("benchmark")
    if config.batch and is_part and not is_file_of_questions(config):
        yield "benchmark", config.benchmark
    yield "agent", config.agent_plan.kind
    for verifier in config.verifiers:
        yield "verifier", verifier.name
    yield "view policy", config.views
    yield "picture stress", config.pictures
    yield "toolset", config.tools
    for plan in config.changes:
        yield "change", plan.name
    if not config.asks_model and config.model_name in registry.brought("scripted policy"):
        yield "scripted policy", config.model_name


def _differs(file: str, kind: str, folder: RunFolder) -> SetupError:
    return SetupError(
        f"{file} is not the {kind} that {folder.name} began with (its SHA-256 differs): restore it, or"
        " start a new run"
    )
