"""A question under way: `QuestionState`, the only object that changes during a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, TypeVar

from render_agent.dialogue.chat import Message, assistant
from render_agent.dialogue.question import Change, Question
from render_agent.dialogue.reply import Action, Malformed
from render_agent.dialogue.turn import Turn
from render_agent.dialogue.view import View
from render_agent.scans.camera import Camera
from render_agent.scans.scene import Scene


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
