"""What the driver hands to a worker, and what a worker tells the driver."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from render_agent.dialogue.state import Phase, Question, Turn
from render_agent.errors import RenderAgentError


@dataclass(frozen=True, slots=True)
class TaskBatch:
    """The questions of whole scenes, each with its turns so far, and the pictures of those turns.

    pictures: PNG bytes by file, relative to the run folder; what is not there is drawn again.
    """

    questions: Sequence[tuple[Question, Sequence[Turn]]]
    pictures: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Ready:
    """A worker has its engine: process `process` on the machine `machine`."""

    batch_size: int
    process: int
    machine: str


@dataclass(frozen=True, slots=True)
class Drawn:
    """A picture, as PNG; it is told before the turn that shows it."""

    file: str
    png: bytes


@dataclass(frozen=True, slots=True)
class Took:
    """A question took a turn."""

    question_id: str
    turn: Turn


@dataclass(frozen=True, slots=True)
class Failed:
    """An error stopped a question before its turn `turn`."""

    question_id: str
    turn: int
    phase: Phase
    error: str
    events: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Noted:
    """Something for the driver's log."""

    record: logging.LogRecord


@dataclass(frozen=True, slots=True)
class Stopped:
    """The worker cannot go on: its set-up is wrong, or its engine is gone."""

    error: RenderAgentError


Message = Ready | Drawn | Took | Failed | Noted | Stopped
