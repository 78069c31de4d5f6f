"""The base class of the parts that options name, such as views, verifiers and engines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from render_agent.dialogue.question import Question
from render_agent.options import RunConfig
from render_agent.tasks.input_files import InputFile


class Choice:
    """A part that checks itself before a run, names the files that it reads, and describes itself.

    Subclasses add a method that makes what the part stands for, such as `build`.
    """

    def check(self, config: RunConfig, questions: Sequence[Question]) -> None:
        """Check that everything the part needs is there; load nothing heavy.

        Args:
            config: The options of the run.
            questions: The questions that are still to be asked.

        Raises:
            SetupError: Something is missing.
            UsageError: Another option contradicts it.
        """

    def check_at_hand(self, config: RunConfig) -> None:
        """Raise SetupError if a model or cluster that this process needs is not available."""

    def inputs(self, config: RunConfig, questions: Sequence[Question]) -> Iterable[InputFile]:
        """Return the files that the part reads, as they are now. SetupError if one cannot be read."""
        return ()

    def describe(self, config: RunConfig, questions: Sequence[Question]) -> dict[str, Any]:
        """Return what `config.json` records about the part, beside the options; load nothing heavy."""
        return {}
