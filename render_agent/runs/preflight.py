"""The preflight of a run: its choices are checked, the files that they read recorded or compared, and the disk."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from render_agent import registry
from render_agent.dialogue.question import Question
from render_agent.engines.make_engine import check_model
from render_agent.errors import SetupError, UsageError
from render_agent.extras import require
from render_agent.options import OPTIONS
from render_agent.render.make_renderer import check_renderer
from render_agent.render.start_pose import parse_start
from render_agent.runs.build import Parts
from render_agent.runs.read import RunData
from render_agent.runs.workers.cluster import check_ray
from render_agent.scans.formats.readers import require_readers
from render_agent.tasks.input_files import annotation_files, sha256
from render_agent.tasks.selection import is_file_of_questions, question_files
from render_agent.util.display import size

NARROWING = ("limit", "type", "dataset", "scene", "id", "exclude", "shuffle", "shard")
"""The options that choose among the questions of a benchmark."""


def check_machine(parts: Parts, questions: Sequence[Question], *, at_hand: bool) -> None:
    """Raise SetupError if a library, package or cluster is missing, UsageError if the start cannot be read."""
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
    """Raise SetupError or UsageError where something is missing for a new run; nothing is written."""
    check_choices(parts, questions, at_hand=True)
    refuse_a_full_disk(parts, questions)


def check_choices(parts: Parts, questions: Sequence[Question], *, at_hand: bool) -> None:
    """Raise SetupError or UsageError where something is missing for a choice of a run.

    questions: those that are still to be asked. at_hand: whether models and clusters have to be at hand.
    """
    check_machine(parts, questions, at_hand=at_hand)
    for choice in parts.choices:
        choice.check(parts.config, questions)
        if at_hand:
            choice.check_at_hand(parts.config)


def refuse_idle_options(parts: Parts, typed: Iterable[str]) -> None:
    """Raise UsageError if an option that was typed for a new run has no effect, and the user would be misled.

    typed: names of options. Those of the environment or of a file may be meant for other runs.
    """
    config = parts.config
    for name in typed:
        flag = f"--{name.replace('_', '-')}"
        if getattr(config, name) == OPTIONS[name].default:
            continue
        if name in NARROWING and config.ply is not None:
            raise UsageError(f"{flag} selects questions of a benchmark: leave it out with --ply")
        if name == "base_url" and not (parts.engine.asks_server or parts.judges):
            raise UsageError(f"{flag} is for --engine openai, not for --engine {config.engine}")


def input_hashes(parts: Parts, questions: Sequence[Question]) -> dict[str, dict[str, str | None]]:
    """Return the SHA-256 of the files that a run reads, by section and name, for `config.json`."""
    config = parts.config
    hashes: dict[str, dict[str, str | None]] = {
        "questions": {str(file): sha256(file) for file in question_files(config)},
        "annotations": {file.name: file.digest for file in annotation_files(config, questions)},
        "scans": {},
        "verifiers": {},
    }
    for choice in parts.choices:
        for file in choice.inputs(config, questions):
            hashes[file.section][file.name] = file.digest
    return hashes


def check_continued(
    folder: RunData, parts: Parts, questions: Sequence[Question], active: Sequence[Question]
) -> None:
    """Raise SetupError where a run cannot go on: something is missing, or a file has changed since.

    questions: all of the run. active: those that are still to be asked.
    """
    if not active:
        return
    config = parts.config
    shown = questions if parts.picture_stress.reads_all_scans else active
    recorded = folder.record["sha256"]
    gone = set(recorded.get("verifiers", ()))
    check_machine(parts, shown, at_hand=True)
    for choice in parts.choices:
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
    wording = parts.prompt.wording
    if folder.record["wording"]["sha256"] != wording.sha256:
        raise _differs(str(wording.file), "wording of the dialogues", folder)


def packages(parts: Parts, questions: Sequence[Question] = ()) -> dict[str, str]:
    """Return the package, with its version, of every part of a run that is none of the program's own.

    By what it is, such as "engine mine". SetupError where one is not installed or cannot be imported.
    """
    versions = {}
    for kind, name in _named(parts, questions):
        if package := registry.package(kind, name):
            registry.load(kind, name)
            versions[f"{kind} {name}"] = package
    return versions


def _named(parts: Parts, questions: Sequence[Question]) -> Iterator[tuple[registry.Kind, str]]:
    """Give the kind and the name of the parts that packages can bring."""
    config = parts.config
    yield "engine", config.engine
    yield "renderer", config.renderer
    yield "reply protocol", config.reply_protocol
    # A file of questions may be gone when its run goes on: they are in the run folder.
    is_part = config.benchmark in registry.names("benchmark")
    if config.batch and is_part and not is_file_of_questions(config):
        yield "benchmark", config.benchmark
    for metric in sorted({q.metric for q in questions if q.metric is not None}):
        yield "metric", metric
    for verifier in parts.verifiers:
        yield "verifier", verifier.name
    yield "view policy", config.views
    if not parts.engine.asks_model and parts.model_name in registry.brought("scripted policy"):
        yield "scripted policy", parts.model_name


def _differs(file: str, kind: str, folder: RunData) -> SetupError:
    return SetupError(
        f"{file} is not the {kind} that {folder.name} began with (its SHA-256 differs): restore it, or"
        " start a new run"
    )


BYTES_A_PIXEL = 0.6
"""Of a stored picture: views of textured scans take about 0.3, maps 0.9."""

BYTES_A_TURN = 4_000
"""Of a turn's line in the log; the first, with the instructions, is about as long as two."""

BYTES_A_CANDIDATE = 1_500
"""Of a reply that was not taken, with where it would have led and how it was scored."""


def pictures_needed(parts: Parts, questions: Sequence[Question]) -> int:
    """Return the upper bound of pictures that a run draws: every question uses all its turns.

    The pictures of the opening are shared by the questions of a scene, and so are the further ones of
    a policy that looks at the scene alone. Those of moves that are drawn to be chosen are counted, made
    or not.
    """
    scenes = len({(question.dataset, question.scene) for question in questions})
    opening = len(parts.opening_kinds)
    if parts.free:
        moves = parts.agent.candidates if parts.agent.draws else 1
        return scenes * opening + moves * (parts.config.max_turns - 1) * len(questions)
    further = parts.most_views - opening
    shared = parts.view_policy.shared
    return scenes * opening + further * (scenes if shared else len(questions))


def disk_needed(
    parts: Parts, questions: Sequence[Question], bytes_a_pixel: float = BYTES_A_PIXEL
) -> int:
    """Return the upper bound of bytes on disk that a run takes: every question uses all its turns."""
    width, height = parts.config.image_size
    pictures = pictures_needed(parts, questions)
    agent, turns = parts.agent, parts.config.max_turns
    lines = len(questions) * (turns + 1) * BYTES_A_TURN
    others = turns * agent.candidates if agent.chooses else 0
    lines += len(questions) * others * BYTES_A_CANDIDATE
    return round(pictures * width * height * bytes_a_pixel) + lines


def refuse_a_full_disk(parts: Parts, questions: Sequence[Question]) -> None:
    """SetupError where a run does not fit the disk of its output folder, before it begins."""
    output = Path(parts.config.output).absolute()
    there = next(folder for folder in (output, *output.parents) if folder.exists())
    if not there.is_dir():
        raise SetupError(f"{there} is a file, and runs lie in a folder: name one by --output")
    free, needed = shutil.disk_usage(there).free, disk_needed(parts, questions)
    if needed > free:
        raise SetupError(
            f"the run may need {size(needed)}, and {there} has {size(free)} free: pass --output on a larger disk, or lower"
            " --image-size, --max-turns or --limit"
        )
