"""The ground-truth scene graph as text, shown instead of views (`--tools graph`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.wording import Wording
from render_agent.scans.boxes import level_size
from render_agent.tasks.ground_truth import UNKNOWN_AREA, Facts
from render_agent.views.instruments import (
    EXACT,
    Faults,
    chance_of,
    graph_reading,
    wrong_facts,
)
from render_agent.views.provider import NextViews, NoViews


@dataclass(frozen=True)
class SceneGraphViews(NoViews):
    """Shows no views and gives the scene graph as text in the first turn; `facts` are ground-truth facts by scene."""

    facts: Mapping[str, Facts]
    wording: Wording
    faults: Faults = EXACT
    seed: int = 0

    def observe(self, state: QuestionState) -> NextViews:
        """Return no views, and the scene graph in the first turn."""
        views, question = super().observe(state), state.question
        if state.turns:
            return views
        facts = self.facts[question.scene]
        true = scene_graph(facts, self.wording)
        if not self.faults.any:
            return replace(views, scene_text=true)
        told_facts = wrong_facts(facts, self.faults.wrong, chance_of(self.seed, question, 0))
        told = scene_graph(told_facts, self.wording)
        reading = graph_reading(question, told, true, told_facts)
        return replace(views, scene_text=told, reading=reading)


def scene_graph(facts: Facts, wording: Wording) -> str:
    """Return the floor area and the objects of a scene as text, one object per line, in the frame of its boxes."""
    area = "unknown" if facts.room_size == UNKNOWN_AREA else f"{facts.room_size:.1f}"
    lines = [wording("graph.heading", area=area)]
    for label, boxes in sorted(facts.boxes.items()):
        for number, box in enumerate(boxes, 1):
            size, yaw = level_size(box)
            along, across, height = (f"{metres:.2f}" for metres in size)
            x, y, z = (f"{metres:.2f}" for metres in box.centre + 0.0)
            line = wording(
                "graph.object",
                label=label,
                number=number,
                x=x,
                y=y,
                z=z,
                along=along,
                across=across,
                height=height,
                yaw=f"{yaw:.0f}",
            )
            lines.append(line)
    return "\n".join(lines)
