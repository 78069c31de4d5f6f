"""The agent that the options name."""

from __future__ import annotations

from render_agent.agents.base import Agent
from render_agent.agents.lookahead import Lookahead
from render_agent.agents.rephrase import Rephrase
from render_agent.agents.rerank import Reranker
from render_agent.agents.single import Single
from render_agent.agents.verifiers.base import Panel
from render_agent.agents.vote import Vote
from render_agent.config import RunConfig
from render_agent.config.choosing_budget import draws_candidates
from render_agent.dialogue.prompt import Prompt
from render_agent.observation import ViewProvider


def make_agent(config: RunConfig, prompt: Prompt, panel: Panel, views: ViewProvider) -> Agent:
    """Return the agent of a run.

    panel: its verifiers. views: draws where candidates lead.
    """
    plan, name = config.agent_plan, config.agent
    if plan.kind == "single":
        return Single(prompt.on_request)
    if plan.kind == "vote":
        return Vote(name, plan.samples, prompt.on_request)
    reranker = Reranker(panel, views)
    if plan.kind == "rephrase":
        draws = draws_candidates(config)
        return Rephrase(name, plan, reranker, prompt, config.seed, draws=draws)
    return Lookahead(name, plan, reranker, prompt, config.seed)
