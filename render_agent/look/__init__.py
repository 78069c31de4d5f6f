"""What a question is shown in its next turn, and what its candidates would be shown."""

from render_agent.observation.base import Foreseeing, Look, Looking, SpaceSource
from render_agent.observation.free_views import Looker
from render_agent.observation.no_views import Blindfold
from render_agent.observation.policy_views import PassiveLooker

__all__ = ["Blindfold", "Foreseeing", "Look", "Looker", "Looking", "PassiveLooker", "SpaceSource"]
