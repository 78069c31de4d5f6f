"""Which questions a run asks: a benchmark, narrowed by the options, or the one that was typed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from render_agent import registry
from render_agent.dialogue.answer import MAX_OPTIONS, letters
from render_agent.dialogue.question import Question
from render_agent.errors import QuestionsError, SetupError, UsageError
from render_agent.options import RunConfig
from render_agent.tasks.benchmark import Benchmark, PackageBenchmark
from render_agent.tasks.counterfactual.change_plan import ChangePlan
from render_agent.tasks.counterfactual.pairs import with_counterparts
from render_agent.tasks.rooms import QUESTIONS, QuestionFile
from render_agent.tasks.scan_folders import refuse_missing
from render_agent.tasks.vsibench import read_ids
from render_agent.util.display import counted
from render_agent.util.reasons import did_you_mean, short_repr
from render_agent.util.sanitize import plain_name


def choose_questions(
    config: RunConfig, *, blind: bool = False, changes: Sequence[ChangePlan] = ()
) -> list[Question]:
    """Return the questions of a run in order. SetupError if they or their scans are missing.

    With --allow-missing it is an error only if there is no scan at all.

    Args:
        config: The options.
        blind: Whether nothing is shown, so that no scans are needed.
        changes: The changes for which each question gets a counterpart.
    """
    if config.ply is not None:
        return [single_question(config)]
    benchmark = find_benchmark(config)
    questions = narrowed(benchmark.questions(config), config)
    if not questions:
        raise QuestionsError(
            "no question is left after --type, --dataset, --scene, --id and --exclude together: leave"
            " one of them out"
        )
    if config.shuffle:
        random.Random(config.seed).shuffle(questions)
    chosen = shard_of(questions[: config.limit], config.shard)
    if blind and not changes:
        return chosen
    chosen = benchmark.with_scans(config, chosen)
    if not (config.allow_missing or blind):
        refuse_missing(chosen, benchmark.searched(config, chosen))
    return with_counterparts(config, chosen, changes) if changes else chosen


def shard_of(questions: Sequence[Question], shard: str | None) -> list[Question]:
    """Return the questions of one shard, "I/N": every N-th scene, from the I-th on, in their order.

    The N shards hold every question once, those of a scene together. UsageError where it is no such
    pair, QuestionsError where the shard is empty.
    """
    if shard is None:
        return list(questions)
    part, slash, parts = shard.partition("/")
    if not (slash and part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
        raise UsageError(f"--shard {shard!r} must be I/N with I from 1 to N, such as 2/8")
    scenes = list(dict.fromkeys((question.dataset, question.scene) for question in questions))
    mine = set(scenes[int(part) - 1 :: int(parts)])
    chosen = [question for question in questions if (question.dataset, question.scene) in mine]
    if not chosen:
        raise QuestionsError(
            f"--shard {shard} is empty: all questions are about {counted(len(scenes), 'scene')}; use fewer parts"
        )
    return chosen


def question_files(config: RunConfig) -> list[Path]:
    """Return the files that the questions of a run come from. SetupError where one is not at hand."""
    if config.ply is not None:
        return []
    excluded = [] if config.exclude is None else [Path(config.exclude)]
    return [*find_benchmark(config).files(config), *excluded]


def single_question(config: RunConfig) -> Question:
    """Return the question that was typed, about the scan that was named."""
    scan = Path(config.ply or "").absolute()
    if scan.is_dir() or not scan.exists():
        state = "a folder" if scan.is_dir() else "no scan"
        raise SetupError(
            f"there is {state} at {config.ply}: give the path of a PLY, GLB or OBJ file"
        )
    return Question(
        id="question",
        benchmark="single",
        dataset="single",
        scene=plain_name(scan.stem),
        type="single",
        text=config.question or "",
        wanted="letter" if config.option else "text",
        options=lettered(config.option),
        scan=scan,
    )


def lettered(options: Sequence[str]) -> tuple[str, ...]:
    """Return choices with their letters; where all carry one already they are left as they are.

    UsageError where one is empty, or there are more of them than letters.
    """
    if not all(option.strip() for option in options):
        raise UsageError("an --option is empty: give each choice its text")
    if len(options) == 1:
        raise UsageError("one --option is no choice: give at least two, or none")
    if len(options) > MAX_OPTIONS:
        raise UsageError(f"{len(options)} choices are too many: give at most {MAX_OPTIONS}")
    if repeated := [
        option for option, count in Counter(map(str.strip, options)).items() if count > 1
    ]:
        raise UsageError(f"two choices are the same, {short_repr(repeated[0])}: leave one out")
    texts = letters(options)
    if list(texts.values()) != [option.strip() for option in options]:
        return tuple(options)
    return tuple(f"{letter}. {text}" for letter, text in texts.items())


def is_file_of_questions(config: RunConfig) -> bool:
    """Whether the benchmark is a file; one that is called like a part of a package goes before it."""
    own = config.benchmark in registry.built_in("benchmark")
    return not own and Path(config.benchmark).is_file()


def find_benchmark(config: RunConfig) -> Benchmark:
    """Return the benchmark of `--benchmark`: a file of questions, or a part. SetupError if there is none of that name."""
    if is_file_of_questions(config):
        path = Path(config.benchmark)
        return QuestionFile(path, path.stem)
    if config.benchmark not in registry.names("benchmark"):
        known = registry.names("benchmark")
        if Path(config.benchmark).is_dir():
            raise SetupError(
                f"--benchmark {config.benchmark} is a folder: name the file of questions in it, such as"
                f" {Path(config.benchmark, QUESTIONS)}"
            )
        raise SetupError(
            f"--benchmark {config.benchmark!r} is neither {', '.join(known)} nor a file of questions, and"
            f" no installed package brings it{did_you_mean(config.benchmark, known)}"
        )
    part = registry.load("benchmark", config.benchmark)
    return part if isinstance(part, Benchmark) else PackageBenchmark(config.benchmark, part)


def narrowed(questions: Sequence[Question], config: RunConfig) -> list[Question]:
    """Return the questions that --type, --dataset, --scene, --id and --exclude leave.

    QuestionsError where one of them names none, or --exclude has an id that no question has.
    """
    excluded = set() if config.exclude is None else read_ids(Path(config.exclude))
    if unknown := sorted(excluded - {question.id for question in questions}):
        raise QuestionsError(
            f"--exclude {config.exclude} has {len(unknown)} ids that no question has, such as"
            f" {short_repr(unknown[0])}: is it another benchmark's?"
        )
    for name in ("type", "dataset", "scene", "id"):
        known = {getattr(question, name) for question in questions}
        for value in getattr(config, name):
            if value not in known:
                spelled = f": there are {', '.join(sorted(known))}" if len(known) < 20 else ""
                raise QuestionsError(
                    f"no question has the {name} {value!r}{spelled}{did_you_mean(value, known)}"
                )
    return [
        question
        for question in questions
        if question.id not in excluded
        and (not config.type or question.type in config.type)
        and (not config.dataset or question.dataset in config.dataset)
        and (not config.scene or question.scene in config.scene)
        and (not config.id or question.id in config.id)
    ]
