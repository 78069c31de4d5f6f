"""The forms of `--agent`: what each asks for, and the agent that it builds.

An agent of a package is such a class, too; its entry point names what is called with the words behind the colon.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from render_agent.config.agent_plan import AgentPlan, VerifierPlan

if TYPE_CHECKING:
    from render_agent.agents.base import Agent
    from render_agent.agents.verifiers.base import Panel
    from render_agent.config import RunConfig
    from render_agent.dialogue.prompt import Prompt
    from render_agent.observation import ViewProvider

COUNT = re.compile(r"[0-9]{1,4}")
ROWS_BY_SAMPLES = re.compile(r"([0-9]{1,4})[x×]([0-9]{1,4})")


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

    def build(self, config: RunConfig, prompt: Prompt, panel: Panel, views: ViewProvider) -> Agent:
        """Return the agent of one reply a turn."""
        from render_agent.agents.single import Single

        return Single(prompt.on_request)


class VotePlan(AgentPlan):
    """Several replies, which vote on the answer or the move."""

    kind = "vote"
    form = "vote:K"
    votes = True

    @classmethod
    def parse(cls, argument: str | None) -> Self:
        """Return the plan of so many voters."""
        return cls(_count(argument))

    def build(self, config: RunConfig, prompt: Prompt, panel: Panel, views: ViewProvider) -> Agent:
        """Return the agent that has samples vote."""
        from render_agent.agents.vote import Vote

        return Vote(config.agent, self.samples, prompt.on_request)


class _ChoosingPlan(AgentPlan):
    """Several replies, of whose moves one is made."""

    @classmethod
    def parse(cls, argument: str | None) -> Self:
        """Return the plan of so many moves."""
        return cls(_count(argument))

    def build(self, config: RunConfig, prompt: Prompt, panel: Panel, views: ViewProvider) -> Agent:
        """Return the agent that chooses among moves."""
        from render_agent.agents.lookahead import Lookahead
        from render_agent.agents.rerank import Reranker

        return Lookahead(config.agent, self, Reranker(panel, views), prompt, config.seed)


class BestPlan(_ChoosingPlan):
    """Of several moves the one that verifiers score best, unseen."""

    kind = "best"
    form = "best:K"
    verified = True


class LookaheadPlan(_ChoosingPlan):
    """Of several moves that are made and drawn first the one that verifiers score best."""

    kind = "lookahead"
    form = "lookahead:K, lookahead:K:2"
    verified = True
    renders = True

    @classmethod
    def parse(cls, argument: str | None) -> Self:
        """Return the plan of so many moves, one or two ahead."""
        samples, colon, depth = (argument or "").partition(":")
        if colon and depth not in ("1", "2"):
            raise ValueError(argument)
        return cls(_count(samples), depth=int(depth or 1))


class ShowPlan(_ChoosingPlan):
    """Several moves, of which the first is made, and the model is shown where all of them lead."""

    kind = "show"
    form = "show:K"
    renders = True
    shows_all = True


class RephrasePlan(AgentPlan):
    """Several wordings of the question, and the best move of the wording whose moves are better."""

    kind = "rephrase"
    form = "rephrase:RxK"
    verified = True
    renders = True

    @classmethod
    def parse(cls, argument: str | None) -> Self:
        """Return the plan of so many wordings and replies to each."""
        found = ROWS_BY_SAMPLES.fullmatch(argument or "")
        if not found or not int(found[1]) or not int(found[2]):
            raise ValueError(argument)
        return cls(int(found[2]), int(found[1]))

    def draws(self, verifiers: Sequence[VerifierPlan]) -> bool:
        """Whether a verifier looks at what its candidates would show."""
        return any(verifier.looks for verifier in verifiers)

    def build(self, config: RunConfig, prompt: Prompt, panel: Panel, views: ViewProvider) -> Agent:
        """Return the agent that asks in several wordings."""
        from render_agent.agents.rephrase import Rephrase
        from render_agent.agents.rerank import Reranker

        reranker, draws = Reranker(panel, views), self.draws(config.verifiers)
        return Rephrase(config.agent, self, reranker, prompt, config.seed, draws=draws)


def _count(text: str | None) -> int:
    """Return a whole number as it is written. ValueError where it is none."""
    if not COUNT.fullmatch(text or ""):
        raise ValueError(text)
    return int(text or "")
