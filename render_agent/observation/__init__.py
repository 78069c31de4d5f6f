"""What a question is shown in its next turn, and what its candidates would be shown.

It imports scenes, renderers and the run log's pictures, and no engine or agent.
Start at `base.ViewProvider`; `free_views.FreeViews` shows what the model asks for.
"""

from render_agent.observation.base import Observation, SpaceSource, ViewProvider
from render_agent.observation.free_views import FreeViews
from render_agent.observation.no_views import NoViews
from render_agent.observation.policy_views import PolicyViews

__all__ = ["FreeViews", "NoViews", "Observation", "PolicyViews", "SpaceSource", "ViewProvider"]
