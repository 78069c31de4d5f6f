"""The base class of agents, and the requests that a turn can make to the scheduler.

A turn is a coroutine. It yields requests for replies, for work in the rendering thread, or for scores from
model-based verifiers. The scheduler serves requests of the same type from all questions in one batch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

from render_agent.agents.verifiers.verifier import Case, TurnContext, Verifier
from render_agent.dialogue.prompt import Prompt
from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.turn import Candidate, Evidence, Turn
from render_agent.engines.engine import Request
from render_agent.views.provider import ViewProvider

# Separates a question's id from the name of a side dialogue. No question id contains it.
SEPARATOR = "\x1f"


@dataclass(frozen=True, slots=True)
class Ask:
    """Requests the replies to model requests, in order. Every request needs a distinct dialogue id."""

    requests: tuple[Request, ...]


@dataclass(frozen=True, slots=True)
class Barrier:
    """Waits until all questions have taken their current batched turn.

    A coroutine yields it twice: after a turn, and before the first request of the next one.
    """

    request: Request | None = None
    """The next request, which an engine can read meanwhile; None if the next turn is not prepared yet."""


@dataclass(frozen=True, slots=True)
class Draw:
    """Requests the result of `work`, which is called in the rendering thread."""

    work: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Judge:
    """Requests the verdicts of all model-based verifiers on a case, in order."""

    case: Case


Need = Ask | Barrier | Draw | Judge


class AfterTurn(Protocol):
    """Asks for more after a turn, outside its dialogue."""

    prompt_tokens: ClassVar[int]
    """Upper bound on the tokens that its message adds to the dialogue."""
    reply_tokens: ClassVar[int]
    """Upper bound on the tokens of a reply, without thinking."""

    def __call__(
        self, state: QuestionState, request: Request, turn: Turn
    ) -> Generator[Need, Any, tuple[Turn, str]]:
        """Return the turn to log, and the id of the side dialogue, which has ended."""
        ...


@dataclass(frozen=True, slots=True)
class TurnRequests:
    """The requests to the model in one turn."""

    requests: tuple[Request, ...]  # one per wording of the question
    wordings: tuple[str, ...] = ()
    """The text of each wording, in the first turn of a question with several wordings."""
    events: tuple[str, ...] = ()  # faults that occurred while preparing the requests, by kind


@dataclass(frozen=True)
class Tools:
    """The parts of a run that agents use."""

    prompt: Prompt
    views: ViewProvider  # renders the views that candidate moves lead to
    verifiers: Sequence[Verifier] = ()
    seed: int = 0


@dataclass(frozen=True)
class Agent:
    """Decides turns. The base class requests one reply and uses it.

    Subclasses request more replies (`ask`) and choose one of them (`choose`). Decisions must depend only on the
    state, the replies and the seed, so that a resumed run repeats them.
    """

    form: ClassVar[str] = "single"
    """Spelling in `--agent`, with K for the number of samples and R for the number of wordings."""
    verifiers: ClassVar[Sequence[str] | None] = None
    """Default verifiers; None if the agent does not use verifiers."""
    draws: ClassVar[bool] = False  # True if the agent renders the views that candidates lead to
    shows_all: ClassVar[bool] = False  # True if the model is shown the views of all candidates

    text: str
    samples: int = 1  # replies per request
    wordings: int = 1  # number of wordings of the question

    @property
    def candidates(self) -> int:
        """Number of replies to choose from."""
        return self.samples * self.wordings

    @property
    def chooses(self) -> bool:
        """True if there is more than one reply to choose from."""
        return self.candidates > 1

    @property
    def chooses_moves(self) -> bool:
        """True if the agent chooses among moves, which requires that the model moves the camera."""
        return self.verifiers is not None or self.shows_all

    def ask(
        self, tools: Tools, context: TurnContext, request: Request
    ) -> Generator[Need, Any, TurnRequests]:
        """Prepare the requests of a turn."""
        yield from ()
        return TurnRequests((replace(request, num_samples=self.samples),))

    def choose(
        self,
        tools: Tools,
        context: TurnContext,
        candidates: Sequence[Candidate],  # the parsed replies, in order
    ) -> Generator[Need, Any, Evidence | None]:
        """Return the candidates, the chosen one and the reasons; None to use the only candidate."""
        yield from ()
        return None

    def dialogues(self, question_id: str) -> Sequence[str]:
        """Return the ids of all dialogues that the agent conducts for a question."""
        return (question_id,)


def turn_seed(seed: int, question_id: str, turn: int) -> int:
    """Derive the seed of one turn of one dialogue from the arguments alone."""
    name = f"{seed} {question_id} {turn}".encode("utf-8", "backslashreplace")
    return int.from_bytes(hashlib.sha256(name).digest()[:4], "big")
