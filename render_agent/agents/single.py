"""The agent that takes the one reply."""

from __future__ import annotations

from dataclasses import dataclass

from render_agent.agents.agent import Agent, Ask, Decision, Steps
from render_agent.agents.candidates import AgentTools, read_reply
from render_agent.agents.verifiers.verifier import TurnContext
from render_agent.engines.engine import Request


@dataclass(frozen=True)
class Single(Agent):
    """Takes the one reply of every turn."""

    form = "single"

    def decide(self, tools: AgentTools, context: TurnContext, request: Request) -> Steps:
        """Ask once, and take what comes."""
        (reply,) = yield Ask((request,))
        cut_off = reply.finish == "length"
        action, result = read_reply(context, reply.text, tools.prompt, cut_off=cut_off)
        return Decision(reply.text, action, result, (reply,), reply.finish)
