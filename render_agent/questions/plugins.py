"""Benchmarks that installed packages bring, beside the program's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from render_agent import registry as plugins
from render_agent.config import RunConfig
from render_agent.dialogue.state import Question
from render_agent.errors import QuestionsError
from render_agent.questions.rows import NAMES, check_name

OWN = ("vsibench", "rooms")
"""The names of the program's own benchmarks."""


def is_brought(config: RunConfig) -> bool:
    """Whether a run asks the questions of an installed package; a file of the same name goes before it."""
    if config.benchmark in OWN or Path(config.benchmark).is_file():
        return False
    return config.benchmark in plugins.names("benchmark")


def load_brought(config: RunConfig) -> list[Question]:
    """Return the questions of a benchmark that an installed package brings, in its order.

    QuestionsError where it gives something else than a list of questions with ids of their own;
    SetupError where it cannot be imported or fails.
    """
    found = plugins.make("benchmark", config.benchmark, Sequence, config, own=OWN)
    told = f"the benchmark {config.benchmark!r} of {plugins.package('benchmark', config.benchmark)}"
    questions: dict[str, Question] = {}
    for place, question in enumerate(found):
        if not isinstance(question, Question):
            raise QuestionsError(f"{told}: entry {place} is no Question but {question!r:.60}")
        try:
            named = question.id, question.dataset, question.scene
            for column, name in zip(NAMES, named, strict=True):
                check_name(column, name)
        except QuestionsError as error:
            raise QuestionsError(f"{told}, entry {place}: {error}") from error
        if question.id in questions:
            raise QuestionsError(f"{told}: the id {question.id!r} stands twice; ids must be unique")
        questions[question.id] = replace(question, benchmark=config.benchmark)
    if not questions:
        raise QuestionsError(f"{told} has no questions")
    return list(questions.values())
