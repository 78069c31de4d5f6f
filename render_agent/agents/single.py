"""The agent that takes the one reply."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from render_agent.agents.base import Agent, Ask, Decision, Steps
from render_agent.agents.candidates import Reranker, read_reply
from render_agent.agents.verifiers.base import TurnContext
from render_agent.config import RunConfig
from render_agent.config.agent_plan import AgentPlan
from render_agent.dialogue.prompt import Prompt
from render_agent.engines.base import Request


class SinglePlan(AgentPlan):
    """One reply, which is taken."""

    kind = "single"
    form = "single"

    @classmethod
    def parse(cls, argument: str | None) -> Self:
        """Return the plan; nothing stands behind the name."""
        if argument is not None:
            raise ValueError(argument)
        return cls()

    def build(self, config: RunConfig, prompt: Prompt, reranker: Reranker) -> Single:
        """Return the agent of one reply a turn."""
        return Single(prompt.on_request)


@dataclass(frozen=True)
class Single(Agent):
    """Takes the one reply of every turn.

    kinds: the kinds of view that a reply may ask for.
    """

    kinds: Sequence[str]

    def decide(self, context: TurnContext, request: Request) -> Steps:
        """Ask once, and take what comes."""
        (reply,) = yield Ask((request,))
        cut_off = reply.finish == "length"
        action, result = read_reply(context, reply.text, self.kinds, cut_off=cut_off)
        return Decision(reply.text, action, result, (reply,), reply.finish)
