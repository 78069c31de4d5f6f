"""Selects the questions of a run: a benchmark filtered by options, or a single question from the command line."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from render_agent import registry
from render_agent.dialogue.question import Question
from render_agent.errors import QuestionsError, SetupError, UsageError
from render_agent.options import RunConfig
from render_agent.tasks.benchmark import Benchmark, PackageBenchmark
from render_agent.tasks.question_types import types_named
from render_agent.tasks.rooms import QUESTIONS, QuestionFile
from render_agent.tasks.rows import add_letters
from render_agent.tasks.scan_folders import refuse_missing
from render_agent.tasks.vsibench import read_ids
from render_agent.util.display import count_noun
from render_agent.util.reasons import did_you_mean, short_repr
from render_agent.util.sanitize import escape_name


def choose_questions(
    config: RunConfig, *, blind: bool = False, needs_scans: bool = False
) -> list[Question]:
    """Return the questions of a run, in order and with their scans."""
    if config.ply is not None:
        return [single_question(config)]
    questions = shard_of(undivided_questions(config), config.shard)
    if blind and not needs_scans:
        return questions
    benchmark = find_benchmark(config)
    questions = benchmark.with_scans(config, questions)
    if not (config.allow_missing or blind):
        refuse_missing(questions, benchmark.search_places(config, questions))
    return questions


def undivided_questions(config: RunConfig) -> list[Question]:
    """Return the questions that the filters select from a benchmark, in order, before `--shard` is applied."""
    questions = filter_questions(find_benchmark(config).questions(config), config)
    if not questions:
        raise QuestionsError(
            "no question matches the combination of --type, --dataset, --scene, --id and --exclude. Omit one of them."
        )
    if config.shuffle:
        random.Random(config.seed).shuffle(questions)
    return questions[: config.limit]


def shard_of(
    questions: Sequence[Question],
    shard: str | None,  # "I/N" with I from 1 to N; None for all questions
) -> list[Question]:
    """Return the questions of one shard, in order.

    Shard I/N contains the questions of every N-th scene, starting at the I-th. Each question is in exactly one shard, and
    all questions about a scene are in the same shard.
    """
    if shard is None:
        return list(questions)
    index, slash, count = shard.partition("/")
    if not (slash and index.isdecimal() and count.isdecimal() and 1 <= int(index) <= int(count)):
        raise UsageError(f"--shard {shard!r} must be I/N with I from 1 to N, such as 2/8")
    scenes = list(dict.fromkeys((question.dataset, question.scene) for question in questions))
    in_shard = set(scenes[int(index) - 1 :: int(count)])
    shard_questions = [
        question for question in questions if (question.dataset, question.scene) in in_shard
    ]
    if not shard_questions:
        raise QuestionsError(
            f"--shard {shard} is empty: the questions are about {count_noun(len(scenes), 'scene')}. Use fewer shards."
        )
    return shard_questions


def question_files(config: RunConfig) -> list[Path]:
    """Return the files that the questions of a run are read from."""
    if config.ply is not None:
        return []
    exclusion_files = [] if config.exclude is None else [Path(config.exclude)]
    return [*find_benchmark(config).files(config), *exclusion_files]


def single_question(config: RunConfig) -> Question:
    scan = Path(config.ply or "").absolute()
    if scan.is_dir() or not scan.exists():
        problem = "it is a folder" if scan.is_dir() else "no such file or directory"
        raise SetupError(
            f"the scan {config.ply} cannot be read: {problem}; pass the path of a PLY, GLB or OBJ file"
        )
    try:
        options = add_letters(config.option)
    except QuestionsError as error:
        raise UsageError(f"--option: {error}") from error
    return Question(
        id="question",
        benchmark="single",
        dataset="single",
        scene=escape_name(scan.stem),
        type="single",
        text=config.question or "",
        answer_form="letter" if config.option else "text",
        options=options,
        scan=scan,
    )


def is_question_file(config: RunConfig) -> bool:
    """Return True if `--benchmark` is a file. Built-in benchmarks take precedence over files, and files over packages."""
    is_built_in = config.benchmark in registry.built_in("benchmark")
    return not is_built_in and Path(config.benchmark).is_file()


def find_benchmark(config: RunConfig) -> Benchmark:
    """Return the benchmark selected by `--benchmark`: built-in, a question file, or provided by a package."""
    if is_question_file(config):
        path = Path(config.benchmark)
        return QuestionFile(path, path.stem)
    if config.benchmark not in registry.names("benchmark"):
        available = registry.names("benchmark")
        if Path(config.benchmark).is_dir():
            raise SetupError(
                f"--benchmark {config.benchmark} is a folder. Pass the question file in it, such as"
                f" {Path(config.benchmark, QUESTIONS)}."
            )
        raise SetupError(
            f"--benchmark {config.benchmark!r} is neither a question file nor a known benchmark"
            f" ({', '.join(available)}){did_you_mean(config.benchmark, available)}"
        )
    part = registry.load("benchmark", config.benchmark)
    return part if isinstance(part, Benchmark) else PackageBenchmark(config.benchmark, part)


def filter_questions(questions: Sequence[Question], config: RunConfig) -> list[Question]:
    """Filter questions by `--type`, `--dataset`, `--scene`, `--id` and `--exclude`."""
    excluded_ids = set() if config.exclude is None else read_ids(Path(config.exclude))
    if unknown := sorted(excluded_ids - {question.id for question in questions}):
        raise QuestionsError(
            f"--exclude {config.exclude} contains {len(unknown)} unknown ids, such as"
            f" {short_repr(unknown[0])}. Check that it belongs to this benchmark."
        )
    selected = [question for question in questions if question.id not in excluded_ids]
    for name in ("type", "dataset", "scene", "id"):
        available = {getattr(question, name) for question in questions}
        values = getattr(config, name)
        if name == "type":
            values = [kind for value in values for kind in types_named(value, available)]
        for value in values:
            if value not in available:
                choices = (
                    f" (available: {', '.join(sorted(available))})" if len(available) < 20 else ""
                )
                raise QuestionsError(
                    f"no question has {name} {value!r}{choices}{did_you_mean(value, available)}"
                )
        if values:
            selected = [question for question in selected if getattr(question, name) in values]
    return selected
