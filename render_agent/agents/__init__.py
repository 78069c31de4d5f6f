"""Agents decide each turn: from a single reply, or from several by voting, verifiers or lookahead.

Start with `agent.py`, the base class, then `vote.py`. Verifiers are in `verifiers/`.
"""

# value of `--agent`, without its counts -> class
AGENTS = {
    "single": "render_agent.agents.agent:Agent",
    "vote": "render_agent.agents.vote:Vote",
    "best": "render_agent.agents.lookahead:Best",
    "lookahead": "render_agent.agents.lookahead:Lookahead",
    "rephrase": "render_agent.agents.rephrase:Rephrase",
    "show": "render_agent.agents.lookahead:Show",
}
