"""What is true of a home that was built."""

from __future__ import annotations

import numpy as np

from render_agent.scene.room_truth import RoomTruth, TrueObject
from render_agent_lab.room_generator.build import Home


def truth_of(home: Home, scene: str) -> RoomTruth:
    """Return what is true of a home that was built."""
    numbers = {id(item): number for number, item in enumerate(home.items)}
    objects = []
    for item in home.items:
        box = item.box
        support = None if item.support is None else numbers[id(item.support)]
        objects.append(
            TrueObject(
                item.label,
                np.round(box.centre, 5),
                np.round(box.size, 5),
                np.round(box.axes, 9) + 0.0,
                item.built.kind,
                item.room,
                support,
            )
        )
    plan = home.plan
    return RoomTruth(scene, home.kind, plan.area, plan.height, plan.rooms, plan.ways, objects)
