"""Benchmarks: where the questions of a run come from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from render_agent import registry
from render_agent.dialogue.question import Question
from render_agent.errors import QuestionsError
from render_agent.options import RunConfig
from render_agent.tasks.rows import NAME_COLUMNS, check_name
from render_agent.util.reasons import short_repr


class Benchmark(ABC):
    """The questions of a value of `--benchmark`."""

    @abstractmethod
    def questions(self, config: RunConfig) -> list[Question]:
        """Return all questions in order; `with_scans` may still find their scans.

        Args:
            config: The options of the run.

        Raises:
            QuestionsError: A file of questions is malformed.
            SetupError: A file of questions is missing.
            UsageError: An option belongs to another benchmark.
        """

    @abstractmethod
    def files(self, config: RunConfig) -> list[Path]:
        """Return the files that the questions are read from. SetupError if one is missing."""

    def with_scans(self, config: RunConfig, questions: Sequence[Question]) -> list[Question]:
        """Return questions with the scans that are found."""
        return list(questions)

    def searched(self, config: RunConfig, questions: Sequence[Question]) -> dict[str, str]:
        """Return where the scans of each data set were searched, a phrase."""
        return {question.dataset: "beside the questions" for question in questions}


@dataclass(frozen=True)
class PackageBenchmark(Benchmark):
    """A function of an installed package that returns questions.

    Attributes:
        name: The value of `--benchmark`.
        load: Takes the options and returns the questions.
    """

    name: str
    load: Callable[[RunConfig], Sequence[Question]]

    def questions(self, config: RunConfig) -> list[Question]:
        """Return the questions. QuestionsError if the function returns anything but questions with unique ids."""
        source = f"the benchmark {self.name!r} of {registry.package('benchmark', self.name)}"
        questions: dict[str, Question] = {}
        for index, question in enumerate(self.load(config)):
            if not isinstance(question, Question):
                raise QuestionsError(
                    f"{source}: entry {index} is no Question but {short_repr(question)}"
                )
            try:
                named = question.id, question.dataset, question.scene
                for column, name in zip(NAME_COLUMNS, named, strict=True):
                    check_name(column, name)
            except QuestionsError as error:
                raise QuestionsError(f"{source}, entry {index}: {error}") from error
            if question.id in questions:
                raise QuestionsError(
                    f"{source}: the id {question.id!r} stands twice; ids must be unique"
                )
            questions[question.id] = replace(question, benchmark=self.name)
        if not questions:
            raise QuestionsError(f"{source} has no questions")
        return list(questions.values())

    def files(self, config: RunConfig) -> list[Path]:
        """Return the file of `--questions`; other files that a package reads are unknown."""
        path = Path(config.questions or "")
        return [path] if path.is_file() else []

    def searched(self, config: RunConfig, questions: Sequence[Question]) -> dict[str, str]:
        """Return that the package has to find the scans."""
        return {question.dataset: "by the package that brings them" for question in questions}
