"""The base class of components selected by an option, such as view policies and verifiers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from render_agent.dialogue.question import Question
from render_agent.options import RunConfig
from render_agent.tasks.input_files import InputFile


class Choice:
    """A component that validates itself before a run, lists its input files, and describes itself.

    Subclasses add a method that creates the working object, such as `build` or `open`.
    """

    def check(self, config: RunConfig, questions: Sequence[Question]) -> None:
        """Check that all requirements are met. Must be fast and must not load models."""

    def check_at_hand(self, config: RunConfig) -> None:
        """Check that models and clusters used by this process are available."""

    def reads_boxes(self, config: RunConfig) -> bool:
        """Return True if the component reads the object boxes of the scenes."""
        return False

    def inputs(self, config: RunConfig, questions: Sequence[Question]) -> Iterable[InputFile]:
        """Return the other files that the component reads, with their current digests."""
        return ()

    def describe(self, config: RunConfig, questions: Sequence[Question]) -> dict[str, Any]:
        """Return the facts that `config.json` records about the component in addition to the options.

        Must be fast and must not load models.
        """
        return {}
