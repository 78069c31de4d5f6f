"""What a question is shown in its next turn: the views that the model asked for, a policy's, or none.

Imports scenes, renderers and dialogues, and no engine or agent.
Start with `base` and its `ViewProvider`; `free_views` draws what the model asks for.
"""

from render_agent.observation.base import NoViews, Observation, ViewProvider
from render_agent.observation.free_views import FreeViews, PolicyViews

__all__ = ["FreeViews", "NoViews", "Observation", "PolicyViews", "ViewProvider"]
