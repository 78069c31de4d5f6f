"""The engine that replies by rule: baselines, recorded replies, and user-defined policies.

Start with `policy.py`, the protocol of policies, then `scripted_engine.py`.
"""

from render_agent.engines.scripted.load_policy import ReplayPolicy, find_policy
from render_agent.engines.scripted.policy import NamedPolicy, Policy
from render_agent.engines.scripted.scripted_engine import BATCH_SIZE, ScriptedEngine, make_scripted

__all__ = [
    "BATCH_SIZE",
    "NamedPolicy",
    "Policy",
    "ReplayPolicy",
    "ScriptedEngine",
    "find_policy",
    "make_scripted",
]
