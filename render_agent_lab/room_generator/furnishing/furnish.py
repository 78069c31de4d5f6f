"""Furnishes each room, with one function per room purpose."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from render_agent.tasks.boxes.room_ground_truth import Room
from render_agent_lab.room_generator.furnishing.fixtures import fit_openings
from render_agent_lab.room_generator.furnishing.placing import Placer
from render_agent_lab.room_generator.item import Item


def furnish(placer: Placer) -> None:
    """Furnish every room of a home. Raises Unfurnishable if an essential item cannot be placed."""
    fit_openings(placer)
    for number, room in enumerate(placer.plan.rooms):
        _PURPOSES[room.purpose](placer, number)
    for number, room in enumerate(placer.plan.rooms):
        _lights(placer, number, room)


def _one_of(placer: Placer, *kinds: str) -> str:
    return kinds[int(placer.rng.integers(len(kinds)))]


def _maybe(placer: Placer, share: float) -> bool:
    return bool(placer.rng.random() < share)


def _lights(placer: Placer, number: int, room: Room) -> None:
    """Hang a lamp over the middle of the room, or two in large or L-shaped rooms."""
    x, y, a, b = room.box
    spots = [np.array([(x + a) / 2, (y + b) / 2])]
    if len(room.corners) > 4 or room.area > 18:
        spots = [
            np.array([x + (a - x) * u, y + (b - y) * v]) for u, v in ((0.27, 0.27), (0.73, 0.73))
        ]
        spots += [np.array([x + (a - x) * u, y + (b - y) * (1 - u)]) for u in (0.27, 0.73)]
    hung = 0
    for spot in spots:
        if room.holds(spot[None])[0] and hung < 2 and placer.ceiling(number, spot):
            hung += 1


def _at_walls(placer: Placer, number: int, *kinds: tuple[str, float]) -> None:
    """Place each kind at a wall with its probability."""
    for kind, share in kinds:
        if _maybe(placer, share):
            placer.wall(kind, number)


def _hang(placer: Placer, number: int, kinds: Sequence[str]) -> None:
    for kind in kinds:
        placer.wall(kind, number, height=float(placer.rng.uniform(1.25, 1.5)))


def _living_room(placer: Placer, number: int) -> None:
    stand = placer.require(placer.wall("tv stand", number))
    placer.on("tv", stand, (-0.2, 0.2), (0, 0.4), askew=2)
    sofa = placer.require(_sofa(placer, stand))
    if _maybe(placer, 0.7):
        placer.in_front_of("rug", sofa, (0.1, 0.25, 0.05), towards=False)
    table = placer.in_front_of("coffee table", sofa, (0.36, 0.32), towards=True)
    if table and _maybe(placer, 0.4):
        placer.on(_one_of(placer, "laptop", "small plant", "table lamp"), table)
    for _ in range(int(placer.rng.integers(1, 4))):
        placer.on("pillow", sofa, (-0.9, 0.9), (-0.5, 0.0))
    placer.beside(_one_of(placer, "floor lamp", "side table", "plant"), sofa)
    if _maybe(placer, 0.45):
        _in_corner(placer, number, "armchair")
    _at_walls(placer, number, ("bookshelf", 0.7), ("cabinet", 0.7))
    if placer.plan.rooms[number].area > 17 or _maybe(placer, 0.4):
        _dining(placer, number)
    if _maybe(placer, 0.3):
        placer.wall(_one_of(placer, "piano", "fireplace"), number)
    extras = ["plant", "trash bin", "floor lamp", "stool", "guitar", "backpack", "fan", "basket"]
    _scatter(placer, number, extras, 3)
    _top_up(placer, number)
    _hang(placer, number, ["picture", "picture", "clock"])


def _sofa(placer: Placer, stand: Item) -> Item | None:
    """Add a sofa that faces the television: at the opposite wall, or otherwise free-standing."""
    gaps = [3.4, 3.0, 2.6, 2.3, 2.0, 1.8]
    x, y, a, b = placer.plan.rooms[stand.room].box
    reach = a - x if abs(stand.front[0]) > 0.5 else b - y
    at_wall = reach - stand.size[1] - 0.96
    if at_wall < 4.2:
        gaps = [at_wall - back for back in (0.0, 0.03, 0.06, 0.1, 0.15)] + gaps
    for shift in (0.0, 0.3, -0.3, 0.6, -0.6):
        if sofa := placer.in_front_of("sofa", stand, gaps, towards=True, shift=shift):
            return sofa
    return None


def _dining(placer: Placer, number: int) -> None:
    """Add a table with matching chairs."""
    room = placer.plan.rooms[number]
    x, y, a, b = room.box
    piece, table = placer.make("dining table"), None
    for _ in range(30):
        where = np.array(
            [placer.rng.uniform(x + 0.9, a - 0.9), placer.rng.uniform(y + 0.9, b - 0.9)]
        )
        turn = float(placer.rng.choice([0.0, 90.0]))
        if table := placer.put(piece, where, turn, number):
            break
    table = table or placer.wall("dining table", number)
    if table is None:
        return
    placer.around("chair", table, int(placer.rng.integers(2, 6)))
    if _maybe(placer, 0.3):
        placer.on("laptop", table)


def _bedroom(placer: Placer, number: int) -> None:
    bed = placer.require(placer.wall("bed", number))
    wide = bed.size[0] > 1.3
    for x in (-0.95, 0.95) if wide else (0.0,):
        placer.on("pillow", bed, (x, x), (0.84, 0.9), askew=5)
    if _maybe(placer, 0.3):
        placer.on("blanket", bed, (-0.6, 0.6), (-0.85, -0.6))
    for _ in range(2 if wide else 1):
        stand = placer.beside("nightstand", bed)
        if stand and _maybe(placer, 0.7):
            placer.on("table lamp", stand, (-0.5, 0.5), (-0.3, 0.5))
    placer.wall("wardrobe", number)
    _at_walls(placer, number, ("dresser", 0.6))
    if _maybe(placer, 0.5):
        _workplace(placer, number)
    if _maybe(placer, 0.4):
        placer.in_front_of("rug", bed, (0.15, 0.3), towards=False)
    extras = "plant,basket,suitcase,backpack,trash bin,armchair,shoes,guitar,bookshelf".split(",")
    _scatter(placer, number, extras, 3)
    _top_up(placer, number)
    _hang(placer, number, ["picture", "picture", "mirror"][: int(placer.rng.integers(1, 4))])


def _workplace(placer: Placer, number: int) -> Item | None:
    desk = placer.wall("desk", number)
    if desk is None:
        return None
    if _maybe(placer, 0.75):
        placer.on("monitor", desk, (-0.5, 0.2), (0.5, 0.9), askew=4)
        placer.on("keyboard", desk, (-0.5, 0.0), (-0.7, -0.4), askew=4)
    else:
        placer.on("laptop", desk, (-0.5, 0.2), (-0.3, 0.2))
    for kind, share in (("telephone", 0.3), ("printer", 0.3), ("table lamp", 0.4)):
        if _maybe(placer, share):
            placer.on(kind, desk, (-1, 1), (-0.2, 0.9))
    placer.in_front_of("office chair", desk, (0.05, 0.1), towards=True, shift=-0.2 * desk.size[0])
    if _maybe(placer, 0.5):
        placer.beside("computer tower", desk, (0.03, 0.06))
    return desk


def _office(placer: Placer, number: int) -> None:
    desks = [placer.require(_workplace(placer, number))]
    for _ in range(int(placer.rng.integers(0, 3))):
        desk = _workplace(placer, number)
        desks += [desk] if desk else []
    _at_walls(placer, number, ("bookshelf", 0.9), ("cabinet", 0.6), ("bookshelf", 0.4))
    if _maybe(placer, 0.6):
        placer.wall("whiteboard", number, height=0.95)
    if placer.plan.rooms[number].area > 15:
        _dining(placer, number)
    _scatter(
        placer, number, ["trash bin", "trash bin", "plant", "backpack", "fan", "floor lamp"], 4
    )
    _top_up(placer, number)
    _hang(placer, number, ["clock", "picture"])


def _kitchen(placer: Placer, number: int) -> None:
    room = placer.plan.rooms[number]
    x, y, a, b = room.box
    width = round(float(placer.rng.uniform(1.5, min(2.4, max(a - x, b - y) - 1.4))), 2)
    counter = placer.require(placer.wall("counter", number, width=width))
    placer.on("kitchen sink", counter, (-0.8, 0.8), (0, 0), askew=0)
    for kind, share in (("microwave", 0.7), ("kettle", 0.8)):
        if _maybe(placer, share):
            placer.on(kind, counter, (-1, 1), (0.2, 0.8))
    stove = placer.beside("stove", counter, (0.015, 0.02)) or placer.wall("stove", number)
    if stove and _maybe(placer, 0.5):
        hood = placer.make("exhaust fan")
        where = stove.point(0, stove.size[1] / 2 - hood.mesh.bounds[1, 1])
        placer.put(hood, where, stove.turn, number, 1.6)
    fridge = placer.beside("refrigerator", counter, (0.02, 0.03))
    placer.require(fridge or placer.wall("refrigerator", number))
    if _maybe(placer, 0.5):
        placer.wall("hanging cabinet", number, height=1.45)
    _at_walls(placer, number, ("dishwasher", 0.4), ("washer", 0.25), ("cabinet", 0.4))
    if room.area > 7:
        _dining(placer, number)
    _scatter(placer, number, ["trash bin", "stool", "stool", "plant", "basket"], 3)
    _hang(placer, number, ["clock", "picture"][: int(placer.rng.integers(1, 3))])


def _bathroom(placer: Placer, number: int) -> None:
    placer.require(placer.wall("toilet", number))
    basin = placer.require(placer.wall("vanity", number))
    if placer.plan.rooms[number].area > 4.2:
        placer.wall("bathtub", number)
    glass = placer.make("mirror")
    where = basin.point(0, basin.size[1] / 2 - glass.mesh.bounds[1, 1] + 0.018)
    placer.put(glass, where, basin.turn, number, 1.15)
    _at_walls(placer, number, ("washer", 0.6))
    for kind, share in (("towel", 0.9), ("towel", 0.6)):
        if _maybe(placer, share):
            placer.wall(kind, number, height=float(placer.rng.uniform(0.9, 1.1)))
    _scatter(placer, number, ["trash bin", "basket", "stool", "plant"], 2)


def _studio(placer: Placer, number: int) -> None:
    """Furnish one room for living, working and sleeping."""
    bed = placer.require(placer.wall("bed", number))
    placer.on("pillow", bed, (0.0, 0.0), (0.84, 0.9), askew=5)
    stand = placer.require(placer.wall("tv stand", number))
    placer.on("tv", stand, (-0.2, 0.2), (0, 0.4), askew=2)
    sofa = _sofa(placer, stand)
    if sofa:
        placer.in_front_of("coffee table", sofa, (0.36, 0.32), towards=True)
        placer.on("pillow", sofa, (-0.9, 0.9), (-0.5, 0.0))
    _workplace(placer, number)
    placer.wall("wardrobe", number)
    if not any(room.purpose == "kitchen" for room in placer.plan.rooms):
        for kind in ("refrigerator", "stove"):
            placer.wall(kind, number)
    _dining(placer, number)
    _scatter(
        placer, number, ["plant", "bookshelf", "trash bin", "backpack", "shoes", "floor lamp"], 4
    )
    _top_up(placer, number)
    _hang(placer, number, ["picture", "picture", "clock"])


def _in_corner(placer: Placer, number: int, kind: str) -> None:
    """Place a piece in a corner, or else at a wall."""
    placer.corner(kind, number) or placer.wall(kind, number)


def _scatter(placer: Placer, number: int, kinds: Sequence[str], count: int) -> None:
    """Place some of these kinds at walls and in corners."""
    chosen = placer.rng.permutation(len(kinds))[:count]
    for index in chosen:
        _in_corner(placer, number, kinds[int(index)])


def _top_up(placer: Placer, number: int) -> None:
    """Put small objects on low furniture."""
    small = {
        "cabinet": ("small plant", "table lamp", "telephone"),
        "dresser": ("table lamp", "small plant"),
    }
    for item in [item for item in placer.items if item.room == number]:
        choices = small.get(item.built.kind)
        if choices and _maybe(placer, 0.6):
            placer.on(_one_of(placer, *choices), item)


_PURPOSES: dict[str, Callable[[Placer, int], None]] = {
    "living room": _living_room,
    "bedroom": _bedroom,
    "office": _office,
    "kitchen": _kitchen,
    "bathroom": _bathroom,
    "studio": _studio,
}
