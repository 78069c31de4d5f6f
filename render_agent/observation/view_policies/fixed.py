"""Views that follow from the first one alone: itself, or all around it."""

from __future__ import annotations

from dataclasses import dataclass

from render_agent.dialogue.state import Question
from render_agent.observation.view_policies.base import Further, Place


@dataclass(frozen=True, slots=True)
class Turned:
    """The first view turned on the spot. lefts: degrees to the left, a view each."""

    lefts: tuple[float, ...] = ()

    def further(self, question: Question, place: Place) -> Further:
        """Return the start's camera turned by each of the angles."""
        return Further([place.start.turned(left) for left in self.lefts])
