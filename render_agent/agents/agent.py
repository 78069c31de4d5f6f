"""The base class of agents, which decide turns, and what they may ask of the scheduler.

An agent is a coroutine a turn: it yields what it needs (replies, work of the thread that draws, scores of
verifiers that ask the engine) and returns what it decided. The scheduler does what is asked for, for all
questions side by side, so that whatever waits alike is done in one batch.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from render_agent.agents.verifiers.verifier import Case, TurnContext, Verdict
from render_agent.dialogue.chat import Message
from render_agent.dialogue.evidence import Evidence
from render_agent.dialogue.moves import StepResult
from render_agent.dialogue.reply import Action, Malformed
from render_agent.dialogue.tokens import Tokens
from render_agent.dialogue.turn import Phase, Seconds, Turn
from render_agent.engines.engine import Reply, Request
from render_agent.views.provider import Observation

if TYPE_CHECKING:
    from render_agent.agents.candidates import AgentTools

SEPARATOR = "\x1f"
"""Stands between a question's id and what tells its dialogues apart; no id that is written has it."""


def turn_seed(seed: int, question_id: str, turn: int) -> int:
    """Return the seed of one turn of one dialogue: it depends on nothing but these three."""
    name = f"{seed} {question_id} {turn}".encode("utf-8", "backslashreplace")
    return int.from_bytes(hashlib.sha256(name).digest()[:4], "big")


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


@dataclass(frozen=True)
class Agent(ABC):
    """Decides turns; what it decides depends on the state, the replies and the seed alone.

    text: as `--agent` has it. samples: replies to every wording of the question. wordings: how many there are.
    """

    form: ClassVar[str]
    """How it is written: K stands for the samples, R for the wordings."""
    verifiers: ClassVar[Sequence[str] | None] = None
    """The verifiers that choose where none is named; None where it takes none."""
    draws: ClassVar[bool] = False
    """Whether what the candidates lead to is drawn."""
    shows_all: ClassVar[bool] = False
    """Whether the model is shown where all moves lead."""

    text: str
    samples: int = 1
    wordings: int = 1

    @property
    def candidates(self) -> int:
        """Replies of which one is taken."""
        return self.samples * self.wordings

    @property
    def chooses(self) -> bool:
        """Whether there are several replies to choose among."""
        return self.candidates > 1

    @property
    def moves(self) -> bool:
        """Whether it chooses among moves, so that there must be some."""
        return self.verifiers is not None or self.shows_all

    @abstractmethod
    def decide(self, tools: AgentTools, context: TurnContext, request: Request) -> Steps:
        """Return the steps from a turn's request to what is taken; no reply that it gets is an error."""

    def dialogues(self, question_id: str) -> Sequence[str]:
        """Return the ids of the dialogues that it leads about a question from turn to turn: one, unless it says more."""
        return (question_id,)
