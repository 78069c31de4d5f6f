"""Builds a furnished home from a seed: its plan, items and surface."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from render_agent.errors import SetupError
from render_agent_lab.room_generator.floor_plan.plan import HomePlan
from render_agent_lab.room_generator.floor_plan.random_plans import flat, l_shaped_room, single_room
from render_agent_lab.room_generator.floor_plan.structure import build_shell
from render_agent_lab.room_generator.furnishing.furnish import furnish
from render_agent_lab.room_generator.furnishing.placing import Placer, Unfurnishable
from render_agent_lab.room_generator.item import Item
from render_agent_lab.room_generator.light import Light, bake_light
from render_agent_lab.room_generator.shapes import Mesh, merge_meshes

KINDS = (  # kinds of homes, built in turn
    "living room",
    "flat of 3 rooms",
    "bedroom",
    "L-shaped studio",
    "flat of 4 rooms",
    "office",
    "flat of 2 rooms",
    "kitchen",
)


@dataclass(frozen=True, eq=False)
class Home:
    """A furnished room or flat; `mesh` is its lit surface in metres, z up, floor at 0."""

    kind: str
    plan: HomePlan
    items: list[Item]
    mesh: Mesh


def build_home(
    seed: int,
    number: int,
    spacing: float,  # vertex spacing of the floor in metres; furniture is denser
) -> Home:
    """Build home `number` of a seed. The result depends only on these two numbers and the spacing."""
    kind = KINDS[number % len(KINDS)]
    for attempt in range(60):
        rng = np.random.default_rng((seed, number, attempt))
        plan = _plan(rng, kind)
        placer = Placer(plan, rng, spacing)
        try:
            furnish(placer)
        except Unfurnishable:
            continue
        parts = build_shell(plan, rng, spacing)
        mesh = merge_meshes([*parts, *(item.mesh for item in placer.items)])
        return Home(kind, plan, placer.items, bake_light(mesh, _lights(plan, placer.items), rng))
    raise SetupError(f"cannot furnish home {number} ({kind}) of seed {seed}. Use another seed.")


def _plan(rng: np.random.Generator, kind: str) -> HomePlan:
    if kind.startswith("flat of"):
        return flat(rng, int(kind.split()[2]))
    if kind.startswith("L-shaped"):
        return l_shaped_room(rng, kind.removeprefix("L-shaped "))
    return single_room(rng, kind)


def _lights(plan: HomePlan, items: list[Item]) -> list[Light]:
    """Return daylight for every window, and every ceiling light."""
    lights = []
    for opening in plan.openings:
        if opening.kind == "window":
            span, tall = opening.high - opening.low, opening.top - opening.bottom
            spots = [
                (*opening.side.at(opening.low + span * u, 0.12), opening.bottom + tall * v)
                for u in (0.2, 0.5, 0.8)
                for v in (0.25, 0.75)
            ]
            facing = np.array([*opening.side.inward, -0.35])
            lights.append(Light(np.array(spots), facing, 2.1 * span * tall, (0.97, 1.0, 1.04)))
    for item in items:
        if item.built.kind == "ceiling light":
            spot = item.position + np.array([0, 0, -0.12])
            lights.append(Light(spot[None], np.array([0, 0, -1.0]), 1.9, (1.05, 1.0, 0.9)))
    return lights
