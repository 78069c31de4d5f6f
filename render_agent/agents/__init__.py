"""Agents: how a turn is decided, from one reply or from several among which verifiers, votes or the model choose.

Holds an agent a module, the votes and other wordings that they use, and the `verifiers` that score candidate moves. May
import the rooms below: dialogue, questions, scenes, observation and engines, never what runs them. Start with `base`,
then `single`, the shortest agent.
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
