"""One turn, a line of `turns.jsonl`, and the evidence behind its reply."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta, Struct

from render_agent.dialogue.beliefs import Belief
from render_agent.dialogue.chat import Blocks, ImageFile, Message, View
from render_agent.dialogue.moves import Outcome
from render_agent.dialogue.question import TargetError, format_pose
from render_agent.dialogue.reply import Action, Malformed, ParsedReply
from render_agent.dialogue.tokens import Tokens
from render_agent.scans.camera import Camera, Vector
from render_agent.util.safe_parse import Count, Either, Finite, NotNegative, Number, UnitInterval


class Candidate(Struct, frozen=True):
    """A reply that the turn could have used, and its consequences."""

    number: Count
    reply: str
    action: ParsedReply
    feedback: str = msgspec.field(name="happened")
    camera: Camera
    outcome: Outcome | None = None
    view: View | None = None
    group: Count = 0

    @property
    def continues_dialogue(self) -> bool:
        """True if the reply was parsed and does not end the dialogue."""
        return isinstance(self.action, Action) and not self.action.done


@dataclass(frozen=True, slots=True)
class Judgement:
    """One verifier's scores of the weighed candidates."""

    verifier: str  # the verifier as written in `--verifier`
    members: tuple[str, ...]  # name of each row of `scores`
    scores: tuple[tuple[Number | None, ...], ...]
    """One row per member, one column per candidate in the order of `Evidence.weighed`; None if the member
    could not score the candidate. Comparable within this turn and this member only.
    """
    reasons: tuple[str, ...]
    """For each candidate, the basis of its score or the reason it has none; may be empty."""


@dataclass(frozen=True, slots=True)
class Ballot:
    """A vote on the answer."""

    votes: tuple[str | None, ...]  # the answer of each sample; None if it gave none
    winner: str
    agreement: UnitInterval  # fraction of the answers that equal the winner
    expected: Finite  # the winner's mean score, with each vote in turn taken as the ground truth
    spread: Finite | None = None  # standard deviation of numeric votes; None for other answers


@dataclass(frozen=True, slots=True)
class Evidence:
    """The candidates of a turn, the chosen one, and the reasons for the choice. Raises ValueError."""

    agent: str  # the agent as written in `--agent`
    candidates: tuple[Candidate, ...]
    chosen: Count
    weighed: tuple[Count, ...] = ()
    """Numbers of the candidates that verifiers scored, in the order of the scores."""
    judgements: tuple[Judgement, ...] = ()  # one per verifier
    fused: tuple[Number, ...] = ()
    """Fused score of each weighed candidate; empty if no verifier gave a score."""
    ballot: Ballot | None = None  # the vote on the answer, if there was one
    wordings: tuple[str, ...] = ()
    """The question's text for each group; empty if there is only one wording."""
    tokens: Tokens = Tokens()  # tokens that the verifiers used in this turn
    calls: NotNegative = 0.0
    """Model calls beyond that of the first reply; a shared call counts fractionally."""

    def __post_init__(self) -> None:
        if [c.number for c in self.candidates] != list(range(len(self.candidates))):
            raise ValueError("candidates are not numbered from 0")
        if self.chosen >= len(self.candidates):
            raise ValueError(f"chosen candidate {self.chosen} does not exist")
        if not set(self.weighed) <= set(range(len(self.candidates))):
            raise ValueError("a weighed candidate does not exist")
        count = len(self.weighed)
        for judgement in self.judgements:
            lengths = {len(judgement.reasons), *map(len, judgement.scores)}
            if lengths != {count} or len(judgement.scores) != len(judgement.members):
                raise ValueError(
                    f"number of scores by {judgement.verifier} differs from the number of weighed candidates"
                )
        if len(self.fused) not in (0, count):
            raise ValueError("number of fused scores differs from the number of weighed candidates")


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


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """What is asked after a turn, outside the dialogue; for scripted policies, which do not parse the message."""

    keys: tuple[str, ...]
    """Keys of the reply."""
    named: tuple[str, ...]
    """Categories that the question names."""
    camera: Camera
    """Pose after the turn."""


class Probe(Struct, frozen=True, omit_defaults=True):
    """The request, the reply, and the belief parsed from it."""

    noun: ClassVar[str] = "belief probes"  # in caveats

    asked: str
    reply: str = ""
    belief: Either[Malformed, Belief] | None = None
    """The parsed reply; None if the engine returned an `error`."""
    error: str | None = None
    finish: Literal["stop", "length"] = "stop"  # `length` if the reply ended at the token limit
    tokens: Tokens = Tokens()  # tokens of the probe; not included in those of the turn
    seconds: NotNegative = 0.0  # generation time; not included in that of the turn
    batch_size: Annotated[int, Meta(ge=1, le=10**15)] = 1  # requests in the same model call
    events: tuple[str, ...] = ()  # engine faults that were recovered from, by kind
    origin: Vector = (0.0, 0.0, 0.0)
    """`Scene.origin` in metres: lets the belief be compared with the ground truth without the scan."""
    mirrored_at: Finite | None = None

    @property
    def parsed_belief(self) -> Belief | None:
        """The belief; None if it could not be parsed."""
        return self.belief if isinstance(self.belief, Belief) else None


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
    """What was asked after the turn; None if nothing was."""
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
