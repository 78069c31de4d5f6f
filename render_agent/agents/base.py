"""The protocol between the scheduler and an agent, which decides a turn.

An agent is a coroutine a turn: it yields what it needs (replies, work of the thread that draws, scores of
verifiers that ask the engine) and returns what it decided. The scheduler does what is asked for, for all
questions side by side, so that whatever waits alike is done in one batch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from render_agent.agents.verifiers.base import Case, TurnContext, Verdict
from render_agent.dialogue.chat import Message
from render_agent.dialogue.moves import StepResult
from render_agent.dialogue.reply import Action, Malformed
from render_agent.dialogue.state import Evidence, Phase, Seconds, Tokens, Turn
from render_agent.engines.base import Reply, Request
from render_agent.observation import Observation

SEPARATOR = "\x1f"
"""Stands between a question's id and what tells its dialogues apart; no id that is written has it."""


def turn_seed(seed: int, question_id: str, turn: int) -> int:
    """Return the seed of one turn of one dialogue: it depends on nothing but these three."""
    name = f"{seed} {question_id} {turn}".encode("utf-8", "backslashreplace")
    return int.from_bytes(hashlib.sha256(name).digest()[:4], "big")


def wording_id(question_id: str, group: int) -> str:
    """Return the id of the dialogue of a wording, from 0; the first is the question's own."""
    return f"{question_id}{SEPARATOR}wording {group}" if group else question_id


def rewording_id(question_id: str) -> str:
    """Return the id of the dialogue in which a question's wordings are asked for."""
    return f"{question_id}{SEPARATOR}wordings"


def dialogue_id(question_id: str, turn: int, candidate: int) -> str:
    """Return the id of the dialogue in which a candidate of a turn was made; no question has it as its own."""
    return f"{question_id}{SEPARATOR}turn {turn} candidate {candidate}"


def probe_id(question_id: str, turn: int) -> str:
    """Return the id of the dialogue in which a model is asked what it believes after a turn."""
    return f"{question_id}{SEPARATOR}turn {turn} probe"


@dataclass(frozen=True, slots=True)
class Ask:
    """Needs the replies to these requests, a list in their order; each has a dialogue id of its own."""

    requests: tuple[Request, ...]


@dataclass(frozen=True, slots=True)
class Draw:
    """Needs what `work` returns, called by the thread that draws."""

    work: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Judge:
    """Needs the verdict on a case of every verifier that asks the engine, a list in their order."""

    case: Case


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome of a turn: the reply that was chosen, its action, the pose that it leads to, and the evidence.

    replies: all that were generated for it, the first of them first. verdicts: of its verifiers. finish:
    as a `Reply` has it.
    """

    reply: str
    action: Action | Malformed
    result: StepResult
    replies: tuple[Reply, ...]
    finish: Literal["stop", "length"] = "stop"
    evidence: Evidence | None = None
    verdicts: tuple[Verdict, ...] = ()

    def seconds(self, rendering: float, elapsed: float) -> Seconds:
        """Return the seconds of its turn: `elapsed` from the request on, after `rendering`.

        The share of the turn in every batch counts, set against the batch of its first reply.
        """
        own = self.replies[0]
        share = sum(reply.seconds / reply.batch_size for reply in self.replies)
        share += sum(verdict.seconds for verdict in self.verdicts)
        spent = (rendering, max(0.0, elapsed - own.seconds), share * own.batch_size)
        # Rounded here, so that a run that is read back from its log has the same totals.
        return Seconds(*(round(part, 4) for part in spent))

    def as_turn(
        self,
        number: int,
        phase: Phase,
        seen: Observation,
        messages: tuple[Message, ...],
        seconds: Seconds,
    ) -> Turn:
        """Return the turn as it is written down; messages: those that are new in it."""
        parts: list[Reply | Verdict] = [*self.replies, *self.verdicts]
        return Turn(
            number=number,
            phase=phase,
            views=seen.views,
            messages=messages,
            reply=self.reply,
            action=self.action,
            feedback=self.result.feedback,
            stood=seen.camera,
            camera=self.result.camera,
            tokens=Tokens.total(part.tokens for part in parts),
            seconds=seconds,
            batch_size=self.replies[0].batch_size,
            finish=self.finish,
            events=tuple(event for part in parts for event in part.events),
            evidence=self.evidence,
            scan=seen.scan,
        )


Need = Ask | Draw | Judge

Steps = Generator[Need, Any, Decision]


class Agent(Protocol):
    """Decides turns; what it decides depends on the state, the replies and the seed alone."""

    def decide(self, context: TurnContext, request: Request) -> Steps:
        """Return the steps from a turn's request to what is taken; no reply that it gets is an error."""
        ...

    def dialogues(self, question_id: str) -> Sequence[str]:
        """Return the ids of the dialogues that it leads about a question from turn to turn: one, unless it says more."""
        return (question_id,)
