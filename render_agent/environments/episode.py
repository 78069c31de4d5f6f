"""An episode: the turns of one question, whose requests the caller answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from render_agent.agents.agent import Ask, Draw, Need
from render_agent.dialogue.chat import Message
from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.turn import Phase
from render_agent.engines.engine import BatchingEngine, Capabilities, Reply, Request
from render_agent.runs.cost.turn_cost import TurnCost
from render_agent.runs.scheduler import TurnCoroutine
from render_agent.runs.turn import TurnTaker


class OutsideEngine(BatchingEngine):
    """Placeholder for the model of an episode, whose caller answers the requests."""

    name = "python"
    capabilities = Capabilities()

    def answer(self, requests: Sequence[Request]) -> list[Reply]:
        """Raise RuntimeError, because the caller answers requests."""
        raise RuntimeError("the requests of an episode are answered by its caller")


@dataclass(eq=False)
class Episode:
    """Takes all turns of one question, and hands out each request for the caller to answer."""

    turns: TurnTaker  # takes the turns; its agent must request a single reply
    state: QuestionState
    phase_of: Callable[[int], Phase]  # returns the phase to record for a turn number
    request: Request | None = field(init=False, default=None)
    """The request to answer next; None if the question has no further turns."""
    replies: list[Reply] = field(init=False, default_factory=list)
    """Replies to earlier requests of the unfinished turn."""
    _coroutine: TurnCoroutine = field(init=False)

    def __post_init__(self) -> None:
        self._coroutine = self._take_all()
        self._advance(lambda: next(self._coroutine))

    @property
    def is_over(self) -> bool:
        """True if the question has no further turns."""
        return self.request is None

    @property
    def new_messages(self) -> list[Message]:
        """The messages of the current request since the last reply; empty if the episode is over."""
        messages = [] if self.request is None else [*self.request.messages]
        roles = [entry["role"] for entry in messages]
        last_index = max((n for n, role in enumerate(roles) if role == "assistant"), default=-1)
        return messages[last_index + 1 :]

    def answer(self, reply: Reply) -> bool:
        """Answer the current request, and continue until the next request."""
        self.request = None
        num_turns = len(self.state.turns)
        self._advance(lambda: self._coroutine.send([reply]))
        self.replies = [] if len(self.state.turns) > num_turns else [*self.replies, reply]
        return self.is_over

    def _take_all(self) -> TurnCoroutine:
        state = self.state
        while state.active:
            yield from self.turns.take(state, self.phase_of(len(state.turns)), TurnCost())

    def _advance(self, step: Callable[[], Need]) -> None:
        """Run the coroutine until it asks for a reply or ends. Views are rendered in the calling thread."""
        try:
            need = step()
            while isinstance(need, Draw):
                result: Any = need.work()
                need = self._coroutine.send(result)
        except StopIteration:
            return
        assert isinstance(need, Ask), "only agents that choose need verdicts"
        (self.request,) = need.requests
