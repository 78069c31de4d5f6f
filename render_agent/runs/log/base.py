"""The seam between the controller and where turns are written down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from render_agent.dialogue.state import Phase, Turn
from render_agent.observation.picture_store import Pictures


class TurnLog(Protocol):
    """Where the controller writes turns down: a run folder, or the way to the process that has one."""

    pictures: Pictures

    def append(self, question_id: str, turn: Turn) -> None:
        """Append one turn; it exists from now on."""
        ...

    def append_error(
        self, question_id: str, turn: int, phase: Phase, error: str, events: Sequence[str] = ()
    ) -> None:
        """Append the error that stopped a question, and the engine's events before it."""
        ...

    def sync(self) -> None:
        """Wait until what was appended also survives the machine's death."""
        ...
