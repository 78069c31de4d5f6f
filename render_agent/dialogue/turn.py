"""One turn: a line of `turns.jsonl`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from render_agent.dialogue.chat import Blocks, ImageFile, Message
from render_agent.dialogue.evidence import Evidence
from render_agent.dialogue.moves import Outcome
from render_agent.dialogue.probe import Probe
from render_agent.dialogue.reply import ParsedReply
from render_agent.dialogue.target import TargetError, format_pose
from render_agent.dialogue.tokens import Tokens
from render_agent.dialogue.view import View
from render_agent.scans.camera import Camera, Vector
from render_agent.util.safe_parse import Count, NotNegative

Phase = Literal["batched", "finishing"]

Digest = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]


@dataclass(frozen=True, slots=True)
class Seconds:
    """Time spent in one turn: rendering views, waiting for the engine, and generating."""

    rendering: NotNegative = 0.0
    waiting: NotNegative = 0.0
    generating: NotNegative = 0.0
    ended_at: NotNegative = 0.0
    """Unix time of the end of the turn; 0 in logs of older versions."""


class Restated(Struct, frozen=True):
    """The request to restate the answer of the last turn in its form, and the reply."""

    messages: tuple[Message, ...]
    reply: str
    answer: str | None = None
    """The canonical answer; None if it could not be read."""
    answer_text: str | None = None
    """The answer in the model's own words."""
    finish: Literal["stop", "length"] = "stop"
    seconds: NotNegative = 0.0
    batch_size: Annotated[int, Meta(ge=1, le=10**15)] = 1


class Reading(Struct, frozen=True, omit_defaults=True):
    """The reading of a faulty instrument in a turn, with the true value."""

    instrument: Literal["measure", "graph", "pose"]
    told: str
    true: str
    points: tuple[Vector, ...] = ()  # the places measured, metres, world frame
    implied: tuple[str, ...] = ()  # the answers that the reading implies
    metres: NotNegative = 0.0  # distance between the reported and the true position


class Turn(Struct, frozen=True):
    """One turn of one question: a line of `turns.jsonl`. Raises ValueError."""

    question_id: str
    number: Count = msgspec.field(name="turn")  # index of the turn, from 0 (`turn` in the log)
    phase: Phase
    views: tuple[View, ...]  # the views shown in this turn
    messages: tuple[Message, ...]  # the messages added in this turn, without the reply
    reply: str
    action: ParsedReply  # the parsed reply, or why it could not be parsed
    feedback: str = msgspec.field(name="happened")
    """The result of the action, as the model reads it next (`happened` in the log)."""
    camera_before: Camera = msgspec.field(name="stood")
    """The pose before the action, from which the views were rendered (`stood` in the log)."""
    camera: Camera
    outcome: Outcome | None = None
    """The outcome of the move. None if the reply is malformed or ends the dialogue, if the model does not move
    the camera, and in logs of older versions.
    """
    tokens: Tokens = Tokens()  # tokens of all replies and verifiers
    seconds: Seconds = Seconds()
    batch_size: Annotated[int, Meta(ge=1, le=10**15)] = 1
    """Requests in the model call that produced the reply."""
    finish: Literal["stop", "length"] = "stop"  # `length` if the reply ended at the token limit
    events: tuple[str, ...] = ()  # engine faults that the turn recovered from, by kind
    evidence: Evidence | None = None  # why this reply was chosen; None if there was only one
    sha256: dict[ImageFile, Digest] = {}
    """Image file -> SHA-256, for every image that the turn mentions."""
    scan: tuple[str, ...] = ()  # in the first turn: how the scan was read, and the assumptions made
    scan_files: dict[str, Digest | None] = {}
    """In the first turn: path -> SHA-256 of the other files that reading the scan opened, such as textures; None for files
    that do not exist.
    """
    probe: Probe | None = None
    """The model's beliefs after the turn; None if they were not requested."""
    blocks: Blocks = ()
    """The reply in the format of the API that returned it, if later requests must send it back verbatim."""
    restated: Restated | None = None
    """In the last turn: the request to restate its answer, and the reply; None if it was not requested."""
    target_errors: tuple[TargetError, ...] = ()
    """If the answer is a pose: the errors of the camera after the turn; in the first turn, after those at the start."""
    readings: tuple[Reading, ...] = ()
    """Readings of instruments that can be wrong; those of exact ones are not logged."""
    error: None = None  # always None; see `Failure`

    def __post_init__(self) -> None:
        if self.evidence is not None:
            candidate = self.evidence.candidates[self.evidence.chosen]
            if (candidate.reply, candidate.camera) != (self.reply, self.camera):
                raise ValueError(f"the turn differs from its chosen candidate {candidate.number}")

    @property
    def answer(self) -> str | None:
        """The canonical answer given in this turn; None if there is none or it could not be read."""
        return self._answering.answer if self._pose is None else self._pose

    @property
    def answer_text(self) -> str | None:
        """The answer given in this turn, in the model's own words."""
        return self._answering.answer_text if self._pose is None else self._pose

    @property
    def exchanges(self) -> list[tuple[tuple[Message, ...], str]]:
        """The messages and the reply of the turn, and those of the request to restate its answer if there was one."""
        again = [] if self.restated is None else [(self.restated.messages, self.restated.reply)]
        return [(self.messages, self.reply), *again]

    @property
    def side_replies(self) -> tuple[Probe, ...]:
        """The replies after the turn and outside its dialogue; the tokens and events of the turn exclude theirs."""
        return () if self.probe is None else (self.probe,)

    @property
    def is_restated(self) -> bool:
        """True if the answer was restated, and could be read then."""
        return self.restated is not None and self.restated.answer is not None

    @property
    def _pose(self) -> str | None:
        """The pose after the turn if it is the answer."""
        return format_pose(self.target_errors[-1].pose) if self.target_errors else None

    @property
    def _answering(self) -> Restated | ParsedReply:
        """The reply that gave the answer."""
        return self.restated if self.restated is not None and self.is_restated else self.action

    @property
    def image_files(self) -> set[str]:
        """Image files of the views shown in the turn and of those rendered to choose its move."""
        candidates = self.evidence.candidates if self.evidence else ()
        others = [*(c.view for c in candidates), *(error.view for error in self.target_errors)]
        return {view.file for view in (*self.views, *others) if view is not None}


# Fields that are omitted from a line of the log if empty.
OPTIONAL_FIELDS = (
    "outcome",
    "evidence",
    "sha256",
    "scan",
    "scan_files",
    "probe",
    "blocks",
    "restated",
    "target_errors",
    "readings",
)


class Failure(Struct, frozen=True):
    """The error that stopped a question before a turn; also a line of `turns.jsonl`."""

    question_id: str
    number: Count = msgspec.field(name="turn")
    """Index of the turn that could not be completed (`turn` in the log)."""
    phase: Phase
    error: str
    events: tuple[str, ...] = ()  # engine faults that preceded the error, by kind
    tokens: Tokens | None = None
    """Tokens of the replies that preceded the error; None in logs of older versions."""
    of_scene: bool = False  # True if reading or rendering the scan caused the error; not logged


LogLine = Turn | Failure  # a line of turns.jsonl
