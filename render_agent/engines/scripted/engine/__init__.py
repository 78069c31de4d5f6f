"""The engine that replies by rule: baselines, written replies, and policies in anybody's Python.

`engine` asks a `policy`; `policies` finds one by its name. Imports what is known of scenes and questions, and
what views show of them; no other engine.
"""

from render_agent.engines.scripted.engine import BATCH_SIZE, ScriptedEngine, make_scripted
from render_agent.engines.scripted.policy import Policy
from render_agent.engines.scripted.policy_files import Replies

__all__ = ["BATCH_SIZE", "Policy", "Replies", "ScriptedEngine", "make_scripted"]
