"""The engine that replies by rule: baselines, written replies, and policies in anybody's Python.

`engine` asks a `policy`; `policies` finds one by its name. Imports what is known of scenes and questions, and
what views show of them; no other engine.
"""

from render_agent.engines.scripted.engine import BATCH_SIZE, ScriptedEngine, make_scripted
from render_agent.engines.scripted.policies import policy_maker
from render_agent.engines.scripted.policy import NamedPolicy, Policy
from render_agent.engines.scripted.policy_files import Replies

__all__ = [
    "BATCH_SIZE",
    "NamedPolicy",
    "Policy",
    "Replies",
    "ScriptedEngine",
    "make_scripted",
    "policy_maker",
]
