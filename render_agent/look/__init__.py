"""What a question is shown in its next turn, and what its candidates would be shown."""

from render_agent.look.blindfold import Blindfold
from render_agent.look.looker import Looker
from render_agent.look.passive import PassiveLooker
from render_agent.look.seam import Foreseeing, Look, Looking, SpaceSource

__all__ = ["Blindfold", "Foreseeing", "Look", "Looker", "Looking", "PassiveLooker", "SpaceSource"]
