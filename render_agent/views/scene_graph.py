"""The true scene graph of a scene as text, told in the place of views (`--tools graph`)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.wording import Wording
from render_agent.scans.boxes import OrientedBox
from render_agent.tasks.ground_truth import Facts
from render_agent.views.provider import NoViews, Observation


@dataclass(frozen=True)
class GraphTold(NoViews):
    """Shows no views, and gives the scene graph as text in the first turn; facts: the ground truth of scenes, by name."""

    facts: Mapping[str, Facts]
    wording: Wording

    def observe(self, state: QuestionState) -> Observation:
        """Return no view, and what is told of the scene where it is the first turn."""
        told = "" if state.turns else scene_graph(self.facts[state.question.scene], self.wording)
        return replace(super().observe(state), told=told)


def scene_graph(facts: Facts, wording: Wording) -> str:
    """Return the objects of a scene as text, a line each, in the frame of its boxes; its floor area first."""
    lines = [wording("graph.heading", area=f"{facts.room_size:.1f}")]
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


def level_size(box: OrientedBox) -> tuple[tuple[float, float, float], float]:
    """Return the size of a box along its two level axes and its upright one, metres, and the first axis's yaw.

    Upright is the axis nearest to z; yaw: degrees in [0, 180), as an axis has no front.
    """
    upright = int(np.abs(box.axes[:, 2]).argmax())
    first, second = (axis for axis in range(3) if axis != upright)
    yaw = math.degrees(math.atan2(box.axes[first, 1], box.axes[first, 0])) % 180
    size = box.size
    return (float(size[first]), float(size[second]), float(size[upright])), round(yaw) % 180
