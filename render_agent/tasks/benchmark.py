"""Benchmarks: the sources of a run's questions."""

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
    """Provides the questions for one value of `--benchmark`, and their scans."""

    @abstractmethod
    def questions(self, config: RunConfig) -> list[Question]:
        """Return all questions, in order. `with_scans` may add their scans later.

        Args:
            config: The options of the run.

        Raises:
            QuestionsError: A question file is malformed.
            SetupError: A question file is missing.
            UsageError: An option does not apply to this benchmark.
        """

    @abstractmethod
    def files(self, config: RunConfig) -> list[Path]:
        """Return the files that the questions are read from.

        Args:
            config: The options of the run.

        Raises:
            SetupError: A file is missing.
        """

    def with_scans(self, config: RunConfig, questions: Sequence[Question]) -> list[Question]:
        """Locate the scans of questions.

        Args:
            config: The options of the run.
            questions: The selected questions.

        Returns:
            The questions in the same order; `scan` is set if the scan was found.
        """
        return list(questions)

    def search_places(self, config: RunConfig, questions: Sequence[Question]) -> dict[str, str]:
        """Return, for each data set, a phrase that says where its scans were expected.

        Args:
            config: The options of the run.
            questions: The selected questions.
        """
        return {question.dataset: "expected next to the question file" for question in questions}


@dataclass(frozen=True)
class PackageBenchmark(Benchmark):
    """A benchmark provided by a function in an installed package."""

    name: str
    load: Callable[[RunConfig], Sequence[Question]]
    """Takes the options of the run and returns the questions."""

    def questions(self, config: RunConfig) -> list[Question]:
        source = f"benchmark {self.name!r} of {registry.package('benchmark', self.name)}"
        questions: dict[str, Question] = {}
        for index, question in enumerate(self.load(config)):
            if not isinstance(question, Question):
                raise QuestionsError(
                    f"{source}: entry {index} must be a Question, not {short_repr(question)}"
                )
            try:
                names = question.id, question.dataset, question.scene
                for column, name in zip(NAME_COLUMNS, names, strict=True):
                    check_name(column, name)
            except QuestionsError as error:
                raise QuestionsError(f"{source}, entry {index}: {error}") from error
            if question.id in questions:
                raise QuestionsError(f"{source}: duplicate id {question.id!r}")
            questions[question.id] = replace(question, benchmark=self.name)
        if not questions:
            raise QuestionsError(f"{source} returned no questions")
        return list(questions.values())

    def files(self, config: RunConfig) -> list[Path]:
        """Return the file given by `--questions`. Other files that the package reads are unknown."""
        path = Path(config.questions or "")
        return [path] if path.is_file() else []

    def search_places(self, config: RunConfig, questions: Sequence[Question]) -> dict[str, str]:
        """Return a phrase that says that the package must provide the scans."""
        package = registry.package("benchmark", self.name)
        return {question.dataset: f"must be provided by {package}" for question in questions}
