"""What a question is, what a turn was, and the one object that changes: `QuestionState`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal, Protocol, TypeVar

import msgspec
from msgspec import Meta, Struct

from render_agent.dialogue.answer import Wanted
from render_agent.dialogue.beliefs import Belief
from render_agent.dialogue.chat import Message, PictureFile, assistant
from render_agent.dialogue.counterfactual import Change
from render_agent.dialogue.reply import Action, Malformed, ReadReply
from render_agent.scans.camera import AnyCamera, Camera, Vector
from render_agent.scans.scene import Scene
from render_agent.score.means import Scored
from render_agent.score.metrics import Metric, find_metric
from render_agent.score.parsers import PARSERS
from render_agent.score.summary import OFFICIAL
from render_agent.util.safe_parse import Count, Either, Finite, NotNegative, Number, Share

Phase = Literal["batched", "finishing"]

Digest = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]


@dataclass(frozen=True, slots=True)
class StartPose:
    """Where the camera begins that answers a question, as its benchmark says.

    position: metres, in the frame of the scan's file as it is shown. yaw: degrees. centred: as SQA3D has it, the
    position counts from the middle of the bounds of the scan as its file has it, before any alignment, the yaw is
    one before any alignment, and the height is that of the eyes.
    """

    position: Vector
    yaw: Number
    centred: bool = False


MAX_QUESTION_LETTERS = 100_000
"""Of a question with its options: pages and prompts have them whole, again and again."""


@dataclass(frozen=True, slots=True)
class Question:
    """One question about one scene.

    options keep their letters as the benchmark writes them ("A. left"). truth is a letter, a number
    as text or a text; it is None where nobody knows it, and it never reaches a prompt. scan is the
    file of the scene, None where it was not found. pruned: whether VSI-Bench-Debiased leaves the
    question out, None where the row does not say. change: what makes it the counterpart of another question,
    None of a benchmark's own. left_out: values of `--change`
    of which it has no counterpart, each with the reason. metric: its name, None for that of the type. answers: others
    that are right, beside the truth. start: where the camera begins, None for where the run says.
    """

    id: str
    benchmark: str
    dataset: str
    scene: str
    type: str
    text: str
    wanted: Wanted
    options: tuple[str, ...] = ()
    truth: str | None = None
    scan: Path | None = None
    pruned: bool | None = None
    change: Change | None = None
    left_out: tuple[tuple[str, str], ...] = ()
    metric: str | None = None
    answers: tuple[str, ...] = ()
    start: StartPose | None = None

    @property
    def too_long(self) -> bool:
        """Whether it is longer than any question is."""
        return len(self.text) + sum(map(len, self.options)) > MAX_QUESTION_LETTERS

    @property
    def chance_id(self) -> str:
        """The id that seeds its randomness: a counterpart has that of its original question."""
        return self.id if self.change is None else self.change.of

    @property
    def begins_apart(self) -> bool:
        """Whether its dialogue begins at a place of its own, or in a changed room, and not where the run says."""
        return self.start is not None or self.change is not None

    @property
    def unchanged(self) -> Question:
        """The same words about the room before the change."""
        return self if self.change is None else replace(self, scene=self.change.scene, change=None)

    @property
    def scored_by(self) -> Metric:
        """The metric that scores its answers."""
        return find_metric(self.metric, self.type, self.wanted)

    @property
    def scorable(self) -> bool:
        """Whether an answer can be scored without a judge: the truth is known, and no judge is asked for."""
        return self.truth is not None and not self.scored_by.judged

    def score(self, answer: str | None, parser: str = OFFICIAL) -> float:
        """Return the score of an answer, 0 … 1, read by one of PARSERS unless the question names its metric.

        That of a counterpart with other letters, or with words for letters, in those of its question. ValueError
        where no answer can be scored.
        """
        metric = self.scored_by
        if self.truth is None or metric.judged:
            raise ValueError(f"no answer to question {self.id} can be scored")
        truth = self.truth
        if self.metric is None:
            if self.change is not None and self.change.meaning:
                answer, truth = self.change.as_before(answer), self.change.as_before(truth) or truth
            answer = PARSERS[parser].read(answer, metric.form)
        return 0.0 if answer is None else metric.score(answer, (truth, *self.answers))

    def scored(self, score: float) -> Scored:
        """Return a score with what the question belongs to."""
        return Scored(self.type, self.dataset, self.scene, score, self.pruned)


class Status(StrEnum):
    """Where a question stands."""

    ACTIVE = "active"
    ANSWERED = "answered"
    """It said done."""
    EXHAUSTED = "exhausted"
    """It ran out of turns: its last answer counts, none is wrong."""
    FAILED = "failed"
    """An error stopped it; continuing the run tries it again."""
    MISSING = "missing"
    """Its scan was not found."""


SCORED = (Status.ANSWERED, Status.EXHAUSTED)
"""The states whose answers count; no answer among them counts as wrong."""


@dataclass(frozen=True, slots=True)
class View:
    """A picture that the model was shown.

    number: counted from 0 within the question. kind: `ego`, `top` or `around`. file: the picture,
    relative to the run folder. camera: what it was taken with (for `around`, the first of the four).
    """

    number: Count
    kind: str
    file: PictureFile
    camera: AnyCamera


class Tokens(Struct, frozen=True):
    """Tokens of one reply, or of several: read, written, and read from a cache instead of computed.

    thought: those of the written ones that were thought before the reply, where the engine can tell them.
    """

    prompt: Count = msgspec.field(name="in", default=0)
    reply: Count = msgspec.field(name="out", default=0)
    cached: Count = msgspec.field(name="from_cache", default=0)
    thought: Count = 0

    @classmethod
    def total(cls, counted: Iterable[Tokens]) -> Tokens:
        """Return the sum of some tokens, none where there are none."""
        tokens = list(counted)
        return cls(
            sum(each.prompt for each in tokens),
            sum(each.reply for each in tokens),
            sum(each.cached for each in tokens),
            sum(each.thought for each in tokens),
        )


@dataclass(frozen=True, slots=True)
class Seconds:
    """Where the time of one turn went: drawing its views, waiting for the engine, generating."""

    rendering: NotNegative = 0.0
    waiting: NotNegative = 0.0
    generating: NotNegative = 0.0


class Candidate(Struct, frozen=True):
    """A reply that could have been the turn's, and what it would have led to.

    feedback: what the model would be told of it (`happened` in the log). camera: the pose after it. view: what would be shown next, None where that was not drawn; its number
    is the one that it would have. group: the number of the wording that it answers.
    """

    number: Count
    reply: str
    action: ReadReply
    feedback: str = msgspec.field(name="happened")
    camera: Camera
    view: View | None = None
    group: Count = 0

    @property
    def goes_on(self) -> bool:
        """Whether it could be read and does not end the dialogue."""
        return isinstance(self.action, Action) and not self.action.done


@dataclass(frozen=True, slots=True)
class Judgement:
    """What one verifier said of the candidates that were weighed, in their order.

    scores: a row a member, None where it could not tell; they compare within this turn and this member
    only. reasons: why there is no score, or what it rests on; empty where nothing is to be said.
    """

    verifier: str
    members: tuple[str, ...]
    scores: tuple[tuple[Number | None, ...], ...]
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ballot:
    """A vote on the answer.

    votes: the answers, by sample, None where it gave none. winner: what was taken. agreement: the share
    of the answers that are the winner. expected: the score that the winner would have on the average,
    were the votes the truth in turn. spread: the standard deviation of numbers, None of others.
    """

    votes: tuple[str | None, ...]
    winner: str
    agreement: Share
    expected: Finite
    spread: Finite | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """Why a turn went as it did: the candidates and what spoke for each.

    chosen: the number of the candidate that was taken. weighed: numbers of those that verifiers scored,
    in the order of the scores; fused has their fused scores, empty where there is none. wordings: the
    question as each group was asked it, where there are several. tokens: those of the turn that
    verifiers took. calls: of the model, beyond that of the turn's first reply, its share of each.
    ValueError where its parts speak of candidates that are not in it.
    """

    agent: str
    candidates: tuple[Candidate, ...]
    chosen: Count
    weighed: tuple[Count, ...] = ()
    judgements: tuple[Judgement, ...] = ()
    fused: tuple[Number, ...] = ()
    ballot: Ballot | None = None
    wordings: tuple[str, ...] = ()
    tokens: Tokens = Tokens()
    calls: NotNegative = 0.0

    def __post_init__(self) -> None:
        if [c.number for c in self.candidates] != list(range(len(self.candidates))):
            raise ValueError("candidates are not numbered from 0")
        if self.chosen >= len(self.candidates):
            raise ValueError("the candidate that is chosen is not there")
        if not set(self.weighed) <= set(range(len(self.candidates))):
            raise ValueError("a candidate that was weighed is not there")
        count = len(self.weighed)
        for judged in self.judgements:
            lengths = {len(judged.reasons), *map(len, judged.scores)}
            if lengths != {count} or len(judged.scores) != len(judged.members):
                raise ValueError(
                    f"the scores of {judged.verifier} do not fit the candidates weighed"
                )
        if len(self.fused) not in (0, count):
            raise ValueError("the fused scores do not fit the candidates weighed")


class Probe(Struct, frozen=True, omit_defaults=True):
    """A probe after a turn, outside the dialogue: the request, the reply, and the belief read from it.

    asked: the message, which no later turn has. belief: the reply as it was understood, None where the engine
    gave an `error` instead. tokens, seconds, batch_size, finish, events: as those of a turn, and not among them.
    origin, mirrored_at: the frame in which the scene was shown, as `Scene` has them, so that the truth can be
    set beside a belief without its scan.
    """

    asked: str
    reply: str = ""
    belief: Either[Malformed, Belief] | None = None
    error: str | None = None
    finish: Literal["stop", "length"] = "stop"
    tokens: Tokens = Tokens()
    seconds: NotNegative = 0.0
    batch_size: Annotated[int, Meta(ge=1, le=10**15)] = 1
    events: tuple[str, ...] = ()
    origin: Vector = (0.0, 0.0, 0.0)
    mirrored_at: Finite | None = None

    @property
    def read(self) -> Belief | None:
        """The belief, None where it could not be read."""
        return self.belief if isinstance(self.belief, Belief) else None


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


class SceneSource(Protocol):
    """Where a state gets its scene from; scenes may be dropped and read again in between."""

    def get(self, question: Question) -> Scene:
        """Return the scene of `question`. SceneError where its scan cannot be read."""
        ...


@dataclass(eq=False)
class QuestionState:
    """One question under way: it owns its scene, its camera and its dialogue.

    Changed by `take`, `fail` and `retry` alone; all else is derived. `max_turns` bounds the dialogue.
    blind: whether it is shown nothing, so that it needs no scan. lost_events: the engine's events on the
    way to replies that never came.
    """

    question: Question
    scenes: SceneSource
    max_turns: int
    blind: bool = field(default=False, kw_only=True)
    turns: list[Turn] = field(default_factory=list)
    error: str | None = None
    lost_events: tuple[str, ...] = ()

    def take(self, turn: Turn) -> None:
        """Append the next turn. ValueError where it is not the next one or the question is retired."""
        if not self.active or turn.number != len(self.turns):
            raise ValueError(
                f"question {self.question.id} is {self.status} after {len(self.turns)} turns:"
                f" it cannot take turn {turn.number}"
            )
        self.turns.append(turn)

    def fail(self, error: str, events: Sequence[str] = ()) -> None:
        """Retire the question with the error that stopped it, and the engine's events before it."""
        self.error = error
        self.lost_events += tuple(events)

    def retry(self) -> None:
        """Go on after an error, from the last good turn."""
        self.error = None

    @property
    def id(self) -> str:
        """The question's id."""
        return self.question.id

    @property
    def change(self) -> Change | None:
        """What makes its question the counterpart of another, None of a benchmark's own."""
        return self.question.change

    @property
    def scene(self) -> Scene:
        """The scene that is shown. SceneError where its scan cannot be read."""
        return self.scenes.get(self.question)

    @property
    def status(self) -> Status:
        """Where it stands."""
        if self.error is not None:
            return Status.FAILED
        if self.question.scan is None and not self.blind:
            return Status.MISSING
        if self.turns and self.said_done:
            return Status.ANSWERED
        return Status.EXHAUSTED if len(self.turns) >= self.max_turns else Status.ACTIVE

    @property
    def active(self) -> bool:
        """Whether it has turns to come."""
        return self.status is Status.ACTIVE

    @property
    def said_done(self) -> bool:
        """Whether its last turn said done and an answer stands."""
        action = self.turns[-1].action
        return isinstance(action, Action) and action.done and self.answer is not None

    @property
    def answer(self) -> str | None:
        """The last answer given, in canonical form: a letter, a number or a text."""
        for turn in reversed(self.turns):
            if turn.action.answer is not None:
                return turn.action.answer
        return None

    @property
    def answer_text(self) -> str | None:
        """The same answer in the model's words; where none could be read, the last unreadable one."""
        actions = [turn.action for turn in reversed(self.turns)]
        readable = [action for action in actions if action.answer is not None]
        texts = (action.answer_text for action in readable or actions)
        return next((text for text in texts if text is not None), None)

    @property
    def camera(self) -> Camera | None:
        """Where the camera stands now; None before the first turn."""
        return self.turns[-1].camera if self.turns else None

    @property
    def trail(self) -> list[Camera]:
        """Where the camera stood in every turn, and where it stands now, in order."""
        return [turn.stood for turn in self.turns] + ([self.camera] if self.camera else [])

    @property
    def views(self) -> list[View]:
        """Every view shown so far, each once, by its number."""
        shown = {view.number: view for turn in self.turns for view in turn.views}
        return [shown[number] for number in sorted(shown)]

    @property
    def dialogue(self) -> list[Message]:
        """The messages so far, replies included; it only ever grows."""
        messages: list[Message] = []
        for turn in self.turns:
            messages.extend(turn.messages)
            messages.append(assistant(turn.reply))
        return messages

    @property
    def repairs(self) -> int:
        """How many replies could not be read."""
        return sum(isinstance(turn.action, Malformed) for turn in self.turns)


Asked = TypeVar("Asked", Question, QuestionState)


def split_counterparts(asked: Iterable[Asked]) -> tuple[list[Asked], list[Asked]]:
    """Return a benchmark's own questions, of which figures are made, and their counterparts (`--change`)."""
    own: list[Asked] = []
    counterparts: list[Asked] = []
    for each in asked:
        (own if each.change is None else counterparts).append(each)
    return own, counterparts
