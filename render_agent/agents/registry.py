"""The agent that the options name."""

from __future__ import annotations

from render_agent.agents.base import Agent
from render_agent.agents.lookahead import Choosing
from render_agent.agents.rephrase import Rephrase
from render_agent.agents.rerank import Weighing
from render_agent.agents.single import Single
from render_agent.agents.verifiers.base import Panel
from render_agent.agents.vote import Vote
from render_agent.config import RunConfig
from render_agent.config.choosing_budget import draws_candidates
from render_agent.dialogue.prompt import Prompt
from render_agent.observation import Foreseeing


def make_agent(config: RunConfig, prompt: Prompt, panel: Panel, foreseeing: Foreseeing) -> Agent:
    """Return the agent of a run.

    panel: its verifiers. foreseeing: draws where candidates lead.
    """
    plan, name = config.agent_plan, config.agent
    if plan.kind == "single":
        return Single(prompt.on_request)
    if plan.kind == "vote":
        return Vote(name, plan.samples, prompt.on_request)
    weighing = Weighing(panel, foreseeing)
    if plan.kind == "rephrase":
        draws = draws_candidates(config)
        return Rephrase(name, plan, weighing, prompt, config.seed, draws=draws)
    return Choosing(name, plan, weighing, prompt, config.seed)
