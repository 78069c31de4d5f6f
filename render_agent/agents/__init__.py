"""Agents decide a turn: from one reply, or from several by a vote, by verifiers, or by looking ahead.

Start with `agent.py`, the base class, then `vote.py`. Parts of `--verifier` are in `verifiers/`.
"""

AGENTS = {
    "single": "render_agent.agents.agent:Agent",
    "vote": "render_agent.agents.vote:Vote",
    "best": "render_agent.agents.lookahead:Best",
    "lookahead": "render_agent.agents.lookahead:Lookahead",
    "rephrase": "render_agent.agents.rephrase:Rephrase",
    "show": "render_agent.agents.lookahead:Show",
}
"""Values of `--agent`, without their counts."""
