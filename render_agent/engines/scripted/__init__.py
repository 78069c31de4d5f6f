"""The engine that replies by rule: baselines, written replies, and policies in anybody's Python.

Holds the `engine`, which asks a policy for each reply, the policies that look at nothing, and the `registry` that finds
one by its name; the second package brings those that know the truth. May import what is known of questions, and no
other engine. Start with `base`.
"""

from render_agent.engines.scripted.load_policy import Replies, policy_maker
from render_agent.engines.scripted.policy import NamedPolicy, Policy
from render_agent.engines.scripted.scripted_engine import BATCH_SIZE, ScriptedEngine, make_scripted

__all__ = [
    "BATCH_SIZE",
    "NamedPolicy",
    "Policy",
    "Replies",
    "ScriptedEngine",
    "make_scripted",
    "policy_maker",
]
