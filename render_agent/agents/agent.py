"""`Agent`, which decides a turn from its replies, and what a turn may ask of the scheduler.

A turn is a coroutine: it yields what it needs (replies, work of the drawing thread, scores from verifiers that ask the
model), and the scheduler serves equal needs of all questions in one batch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from render_agent.agents.verifiers.verifier import Case, TurnContext, Verifier
from render_agent.dialogue.evidence import Candidate, Evidence
from render_agent.dialogue.prompt import Prompt
from render_agent.engines.engine import Request
from render_agent.views.provider import ViewProvider

SEPARATOR = (
    "\x1f"  # between a question's id and the name of a side dialogue; no question id contains it
)


@dataclass(frozen=True, slots=True)
class Ask:
    """Needs the replies to these requests, in order; each request has its own dialogue id."""

    requests: tuple[Request, ...]


@dataclass(frozen=True, slots=True)
class Draw:
    """Needs the result of `work`, which the drawing thread calls."""

    work: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Judge:
    """Needs the verdicts on a case of all verifiers that ask the model, in order."""

    case: Case


Need = Ask | Draw | Judge


@dataclass(frozen=True, slots=True)
class TurnRequests:
    """What the model is asked in one turn.

    Attributes:
        requests: One for each wording of the question.
        wordings: The text of each, in the first turn of a question that is asked in several wordings.
        events: What went wrong while they were made.
    """

    requests: tuple[Request, ...]
    wordings: tuple[str, ...] = ()
    events: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tools:
    """What agents work with in one run.

    Attributes:
        prompt: Words the dialogues.
        views: Draws what a candidate move would show.
        verifiers: Score candidates.
        seed: Seed of the run.
    """

    prompt: Prompt
    views: ViewProvider
    verifiers: Sequence[Verifier] = ()
    seed: int = 0


@dataclass(frozen=True)
class Agent:
    """Decides turns; this one asks for one reply and takes it.

    A subclass asks for more replies (`ask`) and chooses one of the candidate moves (`choose`). Its decision
    depends on the state, the replies and the seed alone.

    Attributes:
        text: The value of `--agent`.
        samples: Replies to each request.
        wordings: Number of wordings of the question.
    """

    form: ClassVar[str] = "single"
    """How it is written in `--agent`: K stands for the samples, R for the wordings."""
    verifiers: ClassVar[Sequence[str] | None] = None
    """The default verifiers; None if it takes none."""
    draws: ClassVar[bool] = False
    """Whether it draws the views that the candidates lead to."""
    shows_all: ClassVar[bool] = False
    """Whether the model is shown the views of all candidates."""

    text: str
    samples: int = 1
    wordings: int = 1

    @property
    def candidates(self) -> int:
        """Number of replies among which it chooses."""
        return self.samples * self.wordings

    @property
    def chooses(self) -> bool:
        """Whether there is more than one reply to choose from."""
        return self.candidates > 1

    @property
    def moves(self) -> bool:
        """Whether it chooses among moves, so that the model must be free to move."""
        return self.verifiers is not None or self.shows_all

    def ask(
        self, tools: Tools, context: TurnContext, request: Request
    ) -> Generator[Need, Any, TurnRequests]:
        """Return what the model is asked in a turn, made from the request for one reply."""
        yield from ()
        return TurnRequests((replace(request, samples=self.samples),))

    def choose(
        self, tools: Tools, context: TurnContext, candidates: Sequence[Candidate]
    ) -> Generator[Need, Any, Evidence | None]:
        """Return the candidates with the chosen one and the reasons for it; None to take the only one."""
        yield from ()
        return None

    def dialogues(self, question_id: str) -> Sequence[str]:
        """Return the ids of the dialogues that it conducts about a question over all turns."""
        return (question_id,)


def turn_seed(seed: int, question_id: str, turn: int) -> int:
    """Return the seed of one turn of one dialogue; it depends on these three values only."""
    name = f"{seed} {question_id} {turn}".encode("utf-8", "backslashreplace")
    return int.from_bytes(hashlib.sha256(name).digest()[:4], "big")


def probe_id(question_id: str, turn: int) -> str:
    """Return the id of the side dialogue in which the model states its beliefs after a turn."""
    return f"{question_id}{SEPARATOR}turn {turn} probe"
