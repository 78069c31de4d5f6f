"""One turn: a line of `turns.jsonl`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from render_agent.dialogue.chat import Message, PictureFile
from render_agent.dialogue.evidence import Evidence
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
    """One turn of one question, as the run log keeps it.

    messages: those new in this turn, without the reply. stood: the pose in which its views were
    taken. camera: the pose after the action. sha256: of every picture that it names, by file.
    feedback: what the action really did, in the words that the model reads next (`happened` in the
    log). events: what went wrong in the engine on the way to the reply, and was mended, by kind. scan: of
    the first turn, what its scene was read as, and what was assumed, a sentence each. probe: what the model was
    asked to believe after it, None where it was not.
    ValueError where the turn is not that of the candidate that its evidence says was chosen.
    """

    number: Count = msgspec.field(name="turn")
    phase: Phase
    views: tuple[View, ...]
    messages: tuple[Message, ...]
    reply: str
    action: ReadReply
    feedback: str = msgspec.field(name="happened")
    stood: Camera
    camera: Camera
    tokens: Tokens = Tokens()
    seconds: Seconds = Seconds()
    batch_size: Annotated[int, Meta(ge=1, le=10**15)] = 1
    finish: Literal["stop", "length"] = "stop"
    events: tuple[str, ...] = ()
    evidence: Evidence | None = None
    sha256: dict[PictureFile, Digest] = {}
    scan: tuple[str, ...] = ()
    probe: Probe | None = None

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
