"""Wall fixtures: doors, windows, and the heaters and curtains next to windows."""

from __future__ import annotations

import numpy as np

from render_agent_lab.room_generator.floor_plan.plan import DOOR_HEIGHT, WALL, Opening, WallSide
from render_agent_lab.room_generator.furnishing.placing import GAP, Placer
from render_agent_lab.room_generator.item import Item


def fit_openings(placer: Placer) -> None:
    """Add doors and windows of one design, and heaters and curtains if there is space."""
    make = int(placer.rng.integers(1 << 30))
    for opening in placer.plan.openings:
        if opening.kind == "entry":
            _closed_door(placer, opening, make)
        elif opening.kind == "door":
            _open_door(placer, opening, make)
        elif opening.kind == "window":
            _window(placer, opening, make)


def _closed_door(placer: Placer, opening: Opening, make: int) -> None:
    side = opening.side
    leaf = placer.make(
        "door", make, width=opening.high - opening.low - 0.0006, height=DOOR_HEIGHT - 0.01
    )
    placer.put(leaf, side.at(opening.middle, -0.12), side.facing, side.room, 0.003, anywhere=True)


def _open_door(placer: Placer, opening: Opening, make: int) -> None:
    """Add a leaf that is open at about a right angle, in either room, at either jamb."""
    leaf = placer.make(
        "door", make, width=opening.high - opening.low - 0.02, height=DOOR_HEIGHT - 0.01
    )
    wide, thick = leaf.mesh.bounds[1][:2] * 2
    assert opening.other is not None
    options = [(room, end) for room in (opening.side.room, opening.other) for end in (-1, 1)]
    for index in placer.rng.permutation(len(options)):
        room, end = options[int(index)]
        jamb = opening.low if end < 0 else opening.high
        along = jamb + end * (thick / 2 + 0.02)
        off = wide / 2 + 0.035
        inward = off if room == opening.side.room else -WALL - off
        where = opening.side.at(along, inward)
        turn = opening.side.facing + 90.0
        if not placer.plan.rooms[room].holds(opening.side.at(along + end * 0.1, inward)[None])[0]:
            continue
        if placer.put(leaf, where, turn % 360, room, 0.003, anywhere=True):
            return
    placer.require(None)


def _window(placer: Placer, opening: Opening, make: int) -> None:
    side, plan = opening.side, placer.plan
    pane = placer.make(
        "window",
        make,
        width=opening.high - opening.low - 0.0006,
        height=opening.top - opening.bottom - 0.0106,
    )
    depth = float(pane.mesh.bounds[1, 1] - pane.mesh.bounds[0, 1])
    where = side.at(opening.middle, -0.155 + depth / 2)
    placer.put(pane, where, side.facing, side.room, opening.bottom + 0.005, anywhere=True)
    purpose = plan.rooms[side.room].purpose
    if placer.rng.random() < 0.7:
        _heater(placer, opening)
    if purpose not in ("bathroom", "kitchen") and placer.rng.random() < 0.6:
        _curtains(placer, opening)


def _heater(placer: Placer, opening: Opening) -> Item | None:
    side = opening.side
    heater = placer.make("heater")
    if heater.mesh.bounds[1, 2] > opening.bottom - 0.05:
        return None
    wide, thick, _ = heater.half
    along = float(np.clip(opening.middle, wide + 0.1, side.length - wide - 0.1))
    where = side.at(along, GAP + thick + 0.02)
    return placer.put(heater, where, side.facing, side.room)


def _curtains(placer: Placer, opening: Opening) -> None:
    side = opening.side
    height = min(opening.top + 0.12, placer.plan.height - 0.12) - 0.06
    make = int(placer.rng.integers(1 << 30))
    for end, edge in ((-1, opening.low), (1, opening.high)):
        curtain = placer.make("curtain", make, height=height)
        wide, thick, _ = curtain.half
        along = edge + end * (wide + 0.06)
        is_beside = wide + 0.02 < along < side.length - wide - 0.02
        if is_beside and _free_of_doors(placer, side, along):
            where = side.at(along, 0.07 + thick)
            hung = placer.put(curtain, where, side.facing, side.room, 0.06)
            if hung:  # keep the space behind a curtain free
                placer.keep_clear.append(hung.box.grown(0.08))


def _free_of_doors(placer: Placer, side: WallSide, along: float) -> bool:
    return not any(
        opening.side.same(side) and opening.low - 0.5 < along < opening.high + 0.5
        for opening in placer.plan.openings
        if opening.kind != "window"
    )
