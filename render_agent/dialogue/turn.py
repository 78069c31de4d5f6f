"""One turn: a line of `turns.jsonl`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from render_agent.dialogue.chat import Message, PictureFile
from render_agent.dialogue.evidence import Evidence
from render_agent.dialogue.moves import Outcome
from render_agent.dialogue.probe import Probe
from render_agent.dialogue.reply import ReadReply
from render_agent.dialogue.tokens import Tokens
from render_agent.dialogue.view import View
from render_agent.scans.camera import Camera
from render_agent.util.safe_parse import Count, NotNegative

Phase = Literal["batched", "finishing"]

Digest = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]


@dataclass(frozen=True, slots=True)
class Seconds:
    """Where the time of one turn went: drawing its views, waiting for the engine, generating."""

    rendering: NotNegative = 0.0
    waiting: NotNegative = 0.0
    generating: NotNegative = 0.0


class Turn(Struct, frozen=True):
    """One turn of one question: a line of `turns.jsonl`.

    Attributes:
        question_id: Id of its question.
        number: Counted from 0 (`turn` in the log).
        phase: The phase of the run.
        views: The views that were shown in it.
        messages: The messages that are new in it, without the reply.
        reply: The reply that was taken, verbatim.
        action: What it asks for, or why it cannot be read.
        feedback: What the action led to, in the words that the model reads next (`happened` in the log).
        stood: The pose in which its views were taken.
        camera: The pose after the action.
        outcome: What its move did; None if it is malformed, ends the dialogue or has no free camera, and in old logs.
        tokens: Tokens of all its replies and verifiers.
        seconds: Where its time went.
        batch_size: Requests in the call of the model that its reply came from.
        finish: `length` if its reply ended at the token limit.
        events: Faults of the engine that were overcome, by kind.
        evidence: Why this reply was chosen, None if there was only one.
        sha256: SHA-256 of every image that it names, by file.
        scan: In the first turn, how the scan was read and what was assumed.
        probe: The model's beliefs after it, None if they were not asked for.
        error: None, always; see `Failure`.

    Raises:
        ValueError: The reply is not that of the candidate that its evidence says was chosen.
    """

    question_id: str
    number: Count = msgspec.field(name="turn")
    phase: Phase
    views: tuple[View, ...]
    messages: tuple[Message, ...]
    reply: str
    action: ReadReply
    feedback: str = msgspec.field(name="happened")
    stood: Camera
    camera: Camera
    outcome: Outcome | None = None
    tokens: Tokens = Tokens()
    seconds: Seconds = Seconds()
    batch_size: Annotated[int, Meta(ge=1, le=10**15)] = 1
    finish: Literal["stop", "length"] = "stop"
    events: tuple[str, ...] = ()
    evidence: Evidence | None = None
    sha256: dict[PictureFile, Digest] = {}
    scan: tuple[str, ...] = ()
    probe: Probe | None = None
    error: None = None

    def __post_init__(self) -> None:
        if self.evidence is not None:
            chosen = self.evidence.candidates[self.evidence.chosen]
            if (chosen.reply, chosen.camera) != (self.reply, self.camera):
                raise ValueError(
                    f"the turn is not that of the candidate {chosen.number} that was chosen"
                )

    @property
    def drawn(self) -> set[str]:
        """The files of the pictures that it shows, and of those that were drawn to choose its move."""
        candidates = self.evidence.candidates if self.evidence else ()
        return {view.file for view in self.views} | {c.view.file for c in candidates if c.view}


class Failure(Struct, frozen=True):
    """The error that stopped a question before a turn: a line of `turns.jsonl`, too.

    Attributes:
        question_id: Id of the question.
        number: Number of the turn that it did not take (`turn` in the log).
        phase: The phase of the run.
        error: One sentence.
        events: Faults of the engine before it, by kind.
        of_scene: Whether the scan or a view of it was to blame; not logged.
    """

    question_id: str
    number: Count = msgspec.field(name="turn")
    phase: Phase
    error: str
    events: tuple[str, ...] = ()
    of_scene: bool = False


LogLine = Turn | Failure
"""A line of `turns.jsonl`."""
