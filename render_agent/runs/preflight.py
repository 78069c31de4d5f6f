"""Checks before a run starts or resumes: its options, libraries, inputs and disk space."""

from __future__ import annotations

import hashlib
import logging
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from render_agent import registry
from render_agent.dialogue.question import Question
from render_agent.engines.sight_check import CheckServers, SightRecord, sight_caveat
from render_agent.errors import SetupError
from render_agent.extras import require
from render_agent.render.make_renderer import check_renderer
from render_agent.runs.build import Parts
from render_agent.runs.conflicts import refuse_fixed_views
from render_agent.runs.inputs import changed_error, refuse_changed
from render_agent.runs.read import RunData
from render_agent.runs.workers.cluster import check_ray
from render_agent.scans.formats.readers import require_readers
from render_agent.tasks.ground_truth import check_own_boxes
from render_agent.tasks.selection import is_question_file
from render_agent.util.display import format_bytes
from render_agent.visibility.start_pose import parse_start

LOG = logging.getLogger(__name__)


def check_machine(parts: Parts, questions: Sequence[Question], *, at_hand: bool) -> None:
    """Raise SetupError if a library, package or cluster is missing, UsageError if `--start` is invalid."""
    config = parts.config
    parse_start(config.start)
    require_readers(q.scan for q in questions if q.scan is not None and not parts.blind)
    packages(parts)
    for name in config.log_to:
        registry.load("logger", name)
        if name in registry.built_in("logger"):
            require(f"--log-to {name}", name)
    if at_hand:
        check_ray(config)
        if not parts.blind:
            check_renderer(config.renderer)


def check_new(parts: Parts, questions: Sequence[Question]) -> None:
    """Raise SetupError or UsageError if a new run cannot start. Writes nothing."""
    check_choices(parts, questions, at_hand=True)
    refuse_a_full_disk(parts, questions)


def check_choices(parts: Parts, questions: Sequence[Question], *, at_hand: bool) -> None:
    check_machine(parts, questions, at_hand=at_hand)
    refuse_fixed_views(parts, questions)
    if at_hand:
        check_own_boxes(questions, parts.config)
    for choice in parts.choices:
        choice.check(parts.config, questions)
        if at_hand:
            choice.check_at_hand(parts.config)


def check_sight(parts: Parts, check_servers: CheckServers) -> list[SightRecord]:
    """Return the results of the sight check that `--sight-check` requests; warn of a bad one."""
    config = parts.config
    if config.sight_check == "off" or parts.blind:
        return []
    checks = check_servers(parts.engine, config)
    if caveat := sight_caveat(checks, with_reason=True):
        if config.sight_check == "require":
            raise SetupError(f"{caveat}. Fix the server, or pass --sight-check warn to run anyway.")
        LOG.warning("%s", caveat)
    return checks


def check_continued(
    folder: RunData, parts: Parts, questions: Sequence[Question], active: Sequence[Question]
) -> None:
    """Check that a run can be resumed."""
    if not active:
        return
    config, recorded = parts.config, parts.recorded
    shown_questions = questions if parts.image_stress.reads_all_scans else active
    check_machine(parts, shown_questions, at_hand=True)
    opened_files = folder.opened_files({question.scan for question in shown_questions})
    refuse_changed(folder.name, parts, shown_questions, opened_files)
    for choice in parts.choices:
        # choices with unchanged files were checked when the run started
        if not any(choice.inputs(config, shown_questions)):
            choice.check(config, shown_questions)
            choice.check_at_hand(config)
    for part, package in packages(parts, questions).items():
        if (before := recorded["packages"].get(part, package)) != package:
            raise SetupError(
                f"{part} is of {package}, but {folder.name} started with {before}. Install that version, or start a new"
                " run."
            )
    wording = parts.prompt.wording
    if folder.record["wording"]["sha256"] != wording.sha256:
        raise changed_error(str(wording.file), "dialogue wording", folder.name)
    digest = prompt_digest(parts)
    # The code that composes the prompt has changed.
    if recorded.get("prompt", digest) != digest:
        raise SetupError(
            f"the prompt is not the one that {folder.name} started with (different SHA-256). Resume it with render_agent"
            f" {folder.record['program']}, or start a new run."
        )


def prompt_digest(parts: Parts) -> str:
    """Return the SHA-256 of the instructions of a run."""
    return hashlib.sha256(parts.prompt.instructions.encode()).hexdigest()


def packages(parts: Parts, questions: Sequence[Question] = ()) -> dict[str, str]:
    """Return the packages, with versions, that provide parts of a run, by kind and name of the part."""
    versions = {}
    for kind, name in _provided_parts(parts, questions):
        if package := registry.package(kind, name):
            registry.load(kind, name)
            versions[f"{kind} {name}"] = package
    return versions


def _provided_parts(
    parts: Parts, questions: Sequence[Question]
) -> Iterator[tuple[registry.Kind, str]]:
    """Yield kind and name of the parts that packages can provide."""
    config = parts.config
    yield "engine", config.engine
    for family in registry.names("model family") if parts.engine.uses_model else ():
        yield "model family", family
    yield "renderer", config.renderer
    yield "reply protocol", config.reply_protocol
    # Resuming needs no question file, because the run folder contains the questions.
    is_part = config.benchmark in registry.names("benchmark")
    if config.batch and is_part and not is_question_file(config):
        yield "benchmark", config.benchmark
    for metric in sorted({q.metric for q in questions if q.metric is not None}):
        yield "metric", metric
    packaged_types = registry.package_names("question type")
    for name in sorted({question.type for question in questions} & {*packaged_types}):
        yield "question type", name
    for verifier in parts.verifiers:
        yield "verifier", verifier.name
    yield "view policy", config.views.partition(":")[0]
    if not parts.engine.uses_model and parts.model_name in registry.package_names(
        "scripted policy"
    ):
        yield "scripted policy", parts.model_name


# Bytes per pixel of a stored image; views of textured scans take about 0.3, maps 0.9.
BYTES_PER_PIXEL = 0.6

BYTES_PER_TURN = 4_000  # log line of a turn; the first turn, with the instructions, counts twice

BYTES_PER_CANDIDATE = 1_500  # a rejected reply with its pose and scores


def count_images(parts: Parts, questions: Sequence[Question]) -> int:
    """Return an upper bound on the images of a run in which all questions use all their turns.

    The questions of a scene share opening views, and additional views of policies that depend only on the scene.
    Rendered candidate moves count whether or not they are chosen.
    """
    scenes = len({(question.dataset, question.scene) for question in questions})
    opening = len(parts.opening_kinds)
    if parts.free:
        moves = parts.agent.candidates if parts.agent.draws else 1
        poses = [question for question in questions if question.answer_form == "pose"]
        # The target, the first views from a start of its own, and the last view.
        own = len(poses) * (opening + 2)
        return scenes * opening + own + moves * (parts.config.max_turns - 1) * len(questions)
    additional = parts.max_views - opening
    is_shared = parts.view_policy.shared
    return scenes * opening + additional * (scenes if is_shared else len(questions))


def disk_needed(
    parts: Parts, questions: Sequence[Question], bytes_per_pixel: float = BYTES_PER_PIXEL
) -> int:
    """Return an upper bound in bytes on the disk space of a run in which all questions use all their turns."""
    width, height = parts.config.image_size
    images = count_images(parts, questions)
    agent, turns = parts.agent, parts.config.max_turns
    lines = len(questions) * (turns + 1) * BYTES_PER_TURN
    num_rejected = turns * agent.candidates if agent.chooses else 0
    lines += len(questions) * num_rejected * BYTES_PER_CANDIDATE
    return round(images * width * height * bytes_per_pixel) + lines


def refuse_a_full_disk(parts: Parts, questions: Sequence[Question]) -> None:
    """Raise SetupError if a run does not fit on the disk of its output folder."""
    output = Path(parts.config.output).absolute()
    folder = next(folder for folder in (output, *output.parents) if folder.exists())
    if not folder.is_dir():
        raise SetupError(f"{folder} is a file, not a folder. Pass another --output.")
    free, required_bytes = shutil.disk_usage(folder).free, disk_needed(parts, questions)
    if required_bytes > free:
        raise SetupError(
            f"the run may need {format_bytes(required_bytes)}, but {folder} has only {format_bytes(free)} free. Pass --output on a larger disk, or"
            " lower --image-size, --max-turns or --limit."
        )
