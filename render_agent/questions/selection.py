"""Which questions a run asks: a benchmark, narrowed by the options, or the one that was typed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from render_agent.config import OPTIONS, RunConfig
from render_agent.dialogue.answer import MOST_OPTIONS, letters
from render_agent.dialogue.state import Question
from render_agent.errors import QuestionsError, SetupError, UsageError
from render_agent.questions.plugins import is_brought, load_brought
from render_agent.questions.rooms import BUNDLED, QUESTIONS, bundled, load_beside
from render_agent.questions.scans import LAYOUTS, Roots, refuse_missing, searched, with_scans
from render_agent.questions.vsibench import load_vsibench, vsibench_files
from render_agent.text.sanitize import plain_name

VSIBENCH_ONLY = ("subset", "tiny_ids", "removed_ids", "annotations")
"""Options that mean nothing for other benchmarks."""


def choose_questions(config: RunConfig) -> list[Question]:
    """Return the questions of a run in their order. SetupError where they or their scans are not at hand.

    With --allow-missing only where no scan at all is; where nothing is shown none is looked for.
    """
    if config.ply is not None:
        return [single_question(config)]
    questions = _narrowed(_benchmark(config), config)
    if not questions:
        raise QuestionsError(
            "no question is left after --type, --dataset, --scene and --id together: leave one of"
            " them out"
        )
    if config.shuffle:
        random.Random(config.seed).shuffle(questions)
    chosen = part_of(questions[: config.limit], config.shard)
    where = "by the package that brings them" if is_brought(config) else "beside the questions"
    places = {question.dataset: where for question in chosen}
    if config.blind:
        return chosen
    if config.benchmark == "vsibench":
        chosen = with_scans(chosen, _roots(config), config.annotations)
        places = searched(_roots(config))
    if not config.allow_missing:
        refuse_missing(chosen, places)
    return chosen


def part_of(questions: Sequence[Question], shard: str | None) -> list[Question]:
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
            f"--shard {shard} is empty: there are {len(scenes)} scenes; use fewer parts"
        )
    return chosen


def question_files(config: RunConfig) -> list[Path]:
    """Return the files that the questions of a run come from. SetupError where one is not at hand."""
    if config.ply is not None:
        return []
    if config.benchmark == "vsibench":
        ids = {"tiny_ids": config.tiny_ids, "removed_ids": config.removed_ids}
        return vsibench_files(config.questions, config.subset, **ids)
    if is_brought(config):  # what it reads is its own; a file that was named is known
        return [path for path in [Path(config.questions or "")] if path.is_file()]
    return [BUNDLED / QUESTIONS if config.benchmark == "rooms" else Path(config.benchmark)]


def single_question(config: RunConfig) -> Question:
    """Return the question that was typed, about the scan that was named."""
    scan = Path(config.ply or "").absolute()
    if not scan.exists():
        raise SetupError(
            f"there is no scan at {config.ply}: give the path of a PLY, GLB or OBJ file"
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
    if len(options) > MOST_OPTIONS:
        raise UsageError(f"{len(options)} choices are too many: give at most {MOST_OPTIONS}")
    texts = letters(options)
    if list(texts.values()) != [option.strip() for option in options]:
        return tuple(options)
    return tuple(f"{letter}. {text}" for letter, text in texts.items())


def _benchmark(config: RunConfig) -> list[Question]:
    if config.benchmark == "vsibench":
        return load_vsibench(
            config.questions,
            config.subset,
            tiny_ids=config.tiny_ids,
            removed_ids=config.removed_ids,
        )
    if is_brought(config):
        return load_brought(config)
    if config.questions is not None:
        raise UsageError(
            "--questions is the file of VSI-Bench's questions: give another file as --benchmark FILE"
        )
    for name in VSIBENCH_ONLY:
        if getattr(config, name) != OPTIONS[name].default:
            flag = "--" + name.replace("_", "-")
            raise UsageError(f"{flag} belongs to --benchmark vsibench: leave it out")
    if config.benchmark == "rooms":
        return bundled()
    path = Path(config.benchmark)
    if not path.is_file():
        raise SetupError(
            f"--benchmark {config.benchmark!r} is neither vsibench, rooms nor a file of questions, and no"
            " installed package brings it"
        )
    return load_beside(path, path.stem)


def _roots(config: RunConfig) -> Roots:
    return {dataset: getattr(config, dataset) for dataset in LAYOUTS}


def _narrowed(questions: Sequence[Question], config: RunConfig) -> list[Question]:
    """Return the questions that --type, --dataset, --scene and --id leave. QuestionsError where one names none."""
    for name in ("type", "dataset", "scene", "id"):
        known = {getattr(question, name) for question in questions}
        for value in getattr(config, name):
            if value not in known:
                spelled = f" (there are {', '.join(sorted(known))})" if len(known) < 20 else ""
                raise QuestionsError(f"no question is left: none has the {name} {value!r}{spelled}")
    return [
        question
        for question in questions
        if (not config.type or question.type in config.type)
        and (not config.dataset or question.dataset in config.dataset)
        and (not config.scene or question.scene in config.scene)
        and (not config.id or question.id in config.id)
    ]
