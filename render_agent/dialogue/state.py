"""The state of a question during a run; `QuestionState` is the only mutable object."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from render_agent.dialogue.chat import Message, View, with_blocks
from render_agent.dialogue.question import Question, TargetError
from render_agent.dialogue.reply import Action, Malformed
from render_agent.dialogue.reply_protocol import JsonProtocol, ReplyProtocol
from render_agent.dialogue.tokens import Tokens
from render_agent.dialogue.turn import Turn
from render_agent.scans.camera import Camera
from render_agent.scans.scene import Scene


class Status(StrEnum):
    """The status of a question."""

    ACTIVE = "active"
    ANSWERED = "answered"
    """The model declared the question done."""
    EXHAUSTED = "exhausted"
    """Out of turns. The last answer counts; without one, the question counts as wrong."""
    FAILED = "failed"
    """Stopped by an error; resuming the run retries the question."""
    MISSING = "missing"
    """The scan was not found."""


# status -> its name for people, in display order
STATUS_LABELS = {
    Status.ANSWERED: "answered",
    Status.EXHAUSTED: "out of turns",
    Status.FAILED: "failed",
    Status.MISSING: "scan not found",
    Status.ACTIVE: "in progress",
}

# Statuses that are scored; a missing answer counts as wrong.
SCORED = (Status.ANSWERED, Status.EXHAUSTED)


class SceneSource(Protocol):
    """Provides scenes; a scene may be evicted and read again between calls."""

    def get(self, question: Question) -> Scene:
        """Return the scene of a question."""
        ...


@dataclass(eq=False)
class QuestionState:
    """The state of one question: its scene, camera and dialogue.

    Only `take`, `fail` and `retry` change it; all properties are derived.
    """

    question: Question
    scenes: SceneSource
    max_turns: int  # upper bound on the number of turns
    blind: bool = field(default=False, kw_only=True)
    """True if the model sees nothing; no scan is needed then."""
    protocol: ReplyProtocol = field(default_factory=JsonProtocol, kw_only=True)
    """How replies are sent back in the dialogue."""
    turns: list[Turn] = field(default_factory=list)
    error: str | None = None  # the error that stopped the question, if any
    lost_events: tuple[str, ...] = ()  # engine events of requests that failed without a reply
    lost_tokens: Tokens = Tokens()

    def take(self, turn: Turn) -> None:
        """Append the next turn. Raises ValueError."""
        if not self.active or turn.number != len(self.turns):
            raise ValueError(
                f"cannot add turn {turn.number} to question {self.question.id}:"
                f" it is {self.status} after {len(self.turns)} turns"
            )
        self.turns.append(turn)

    def fail(self, error: str, events: Sequence[str] = (), tokens: Tokens | None = None) -> None:
        """Stop the question with an error, and record the engine events and tokens that preceded the error."""
        self.error = error
        self.lost_events += tuple(events)
        self.lost_tokens = Tokens.total([self.lost_tokens, tokens or Tokens()])

    def retry(self) -> None:
        """Clear the error, so that the question resumes after its last completed turn."""
        self.error = None

    @property
    def id(self) -> str:
        """The question's id."""
        return self.question.id

    @property
    def scene(self) -> Scene:
        """The scene."""
        return self.scenes.get(self.question)

    @property
    def status(self) -> Status:
        """The current status."""
        if self.error is not None:
            return Status.FAILED
        if self.question.scan is None and not self.blind:
            return Status.MISSING
        if self.turns and self.said_done:
            return Status.ANSWERED
        return Status.EXHAUSTED if len(self.turns) >= self.max_turns else Status.ACTIVE

    @property
    def active(self) -> bool:
        """True if the question is unfinished."""
        return self.status is Status.ACTIVE

    @property
    def said_done(self) -> bool:
        """True if the last turn declared the question done or restated its answer, and an answer exists."""
        turn = self.turns[-1]
        is_done = isinstance(turn.action, Action) and turn.action.done
        return (is_done or turn.is_restated) and self.answer is not None

    @property
    def answer(self) -> str | None:
        """The most recent answer in canonical form: a letter, a number or a text; or the camera's pose."""
        for turn in reversed(self.turns):
            if turn.answer is not None:
                return turn.answer
        return None

    @property
    def answer_text(self) -> str | None:
        """The same answer in the model's words; if no answer was readable, the most recent unreadable one."""
        turns = self.turns[::-1]
        with_answer = [turn for turn in turns if turn.answer is not None]
        texts = (turn.answer_text for turn in with_answer or turns)
        return next((text for text in texts if text is not None), None)

    @property
    def target_errors(self) -> list[TargetError]:
        """The errors at the start and after each turn, if the answer is a pose."""
        return [error for turn in self.turns for error in turn.target_errors]

    @property
    def camera(self) -> Camera | None:
        """The current pose; None before the first turn."""
        return self.turns[-1].camera if self.turns else None

    @property
    def trail(self) -> list[Camera]:
        """The pose of each turn, followed by the current one."""
        return [turn.camera_before for turn in self.turns] + ([self.camera] if self.camera else [])

    @property
    def views(self) -> list[View]:
        """The distinct views shown so far, ordered by number."""
        by_number = {view.number: view for turn in self.turns for view in turn.views}
        return [by_number[number] for number in sorted(by_number)]

    @property
    def dialogue(self) -> list[Message]:
        """All messages so far, including replies; append-only."""
        messages: list[Message] = []
        for turn in self.turns:
            messages.extend(turn.messages)
            reply = self.protocol.reply_message(turn.reply, turn.number)
            messages.append(with_blocks(reply, turn.blocks))
            if turn.restated is not None:
                messages.extend(turn.restated.messages)
                messages.append(self.protocol.reply_message(turn.restated.reply, turn.number + 1))
        return messages

    @property
    def repairs(self) -> int:
        """Number of unreadable replies."""
        return sum(isinstance(turn.action, Malformed) for turn in self.turns)
