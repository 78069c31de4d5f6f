"""The agent that takes the one reply."""

from __future__ import annotations

from collections.abc import Sequence

from render_agent.agents.base import Ask, Decision, Steps
from render_agent.agents.candidates import read_reply
from render_agent.agents.verifiers.base import Situation
from render_agent.engines.base import Request


class Single:
    """Takes the one reply of every turn.

    kinds: the kinds of view that a reply may ask for.
    """

    def __init__(self, kinds: Sequence[str]) -> None:
        self.kinds = tuple(kinds)

    def decide(self, situation: Situation, request: Request) -> Steps:
        """Ask once, and take what comes."""
        (reply,) = yield Ask((request,))
        cut_off = reply.finish == "length"
        action, result = read_reply(situation, reply.text, self.kinds, cut_off=cut_off)
        return Decision(reply.text, action, result, (reply,), reply.finish)

    def dialogues(self, question_id: str) -> Sequence[str]:
        """Return the one dialogue."""
        return (question_id,)
