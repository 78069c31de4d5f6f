"""Drills say what follows from the places that they give, in the words of the expert's derivations."""

import json
import math
import random
import re

import pytest

from render_agent.expert.derive import Spot, bearing_of
from render_agent.expert.known import known_scenes
from render_agent.questions.rooms import BUNDLED, load_rooms
from render_agent.rooms.boxes import distance
from training import drills
from training.text_examples import drill_examples, turned

NUMBER = r"-?\d+\.\d"
WAY = f"{NUMBER} {NUMBER}"


def way(start, end):
    """Return metres along x and along y from one spot to another, as they are said."""
    return " ".join(f"{b - a:.1f}".replace("-0.0", "0.0") for a, b in zip(start, end, strict=True))


@pytest.fixture(scope="module")
def known():
    return known_scenes(load_rooms(BUNDLED))


def drilled(known, seed=0):
    """Return of each kind the places given and what is said of them, drawn from one turned room."""
    chance = random.Random(seed)
    room = turned(known["room01"], chance.uniform(0, 2 * math.pi))
    made = {}
    for asked, given, learned in drills.drills(room, chance):
        reply = json.loads(given + learned)
        assert (reply["answer"], reply["done"]) == (None, False)
        places, said = reply["reasoning"].split(". ", 1)
        found = re.findall(rf"([a-z][a-z ]*) ({NUMBER}) ({NUMBER})(?:; |$)", places)
        made[asked] = {name: Spot(float(x), float(y)) for name, x, y in found}, said
    return room, made


def test_directions_are_those_from_the_first_named(known):
    _, made = drilled(known)
    spots, said = made["Which way?"]
    stand, *others = spots
    assert len(spots) > 5
    parts = [
        re.fullmatch(rf"(.+) ({WAY}) (\d+), (.+) ({WAY}) (\d+): (\d+) (left|right)", part)
        for part in said.split("; ")
    ]
    assert [name for part in parts for name in part.group(1, 4)] == others[: len(parts) * 2]
    assert len(parts) == len(others) // 2
    for part in parts:
        one, first, ahead, other, second, there, turn, side = part.groups()
        assert [first, second] == [way(spots[stand], spots[name]) for name in (one, other)]
        assert int(ahead) == bearing_of(spots[stand], spots[one])
        assert int(there) == bearing_of(spots[stand], spots[other])
        signed = int(turn) if side == "left" else -int(turn)
        assert (int(ahead) + signed - int(there)) % 360 == 0


def test_turns_are_those_of_a_walk_in_the_order_named(known):
    _, made = drilled(known)
    spots, said = made["Which turns?"]
    walk = list(spots)
    legs = said.split("; ")
    assert len(legs) == len(walk) - 2
    for leg, (here, corner, goal) in zip(
        legs, zip(walk, walk[1:], walk[2:], strict=False), strict=True
    ):
        first, ahead, name, second, there, word = re.fullmatch(
            rf"facing ({WAY}) (\d+), (.+) ({WAY}) (\d+): (left|right|back)", leg
        ).groups()
        assert name == goal
        assert [first, second] == [way(spots[here], spots[corner]), way(spots[corner], spots[goal])]
        assert int(ahead) == bearing_of(spots[here], spots[corner])
        assert int(there) == bearing_of(spots[corner], spots[goal])
        off = (int(there) - int(ahead)) % 360
        if word != "back":
            assert (word == "left") == (0 < off < 180)


def test_nearness_is_the_distance_from_the_last_named(known):
    room, made = drilled(known)
    spots, said = made["How near?"]
    *others, target = spots
    parts = [re.fullmatch(rf"(.+) ({WAY}) ({NUMBER})", part).groups() for part in said.split(", ")]
    assert [name for name, _, _ in parts] == others
    for name, along, metres in parts:
        assert along == way(spots[target], spots[name])
        truth = distance(room.boxes[name][0], room.boxes[target][0])
        assert float(metres) == pytest.approx(truth, abs=0.051)


def test_every_room_is_drilled_each_time_otherwise():
    made = list(drill_examples(BUNDLED, rounds=3))
    assert len(made) == 8 * 3 * len(drills.KINDS)
    assert len({example.given for example in made}) == len(made)
    assert {example.question.text for example in made} == drills.KINDS.keys()


def test_too_few_objects_are_not_drilled(known):
    room = known["room01"]
    names = [name for name, some in room.boxes.items() if len(some) == 1][: drills.LEAST - 1]
    few = type(room)({name: room.boxes[name] for name in names})
    assert list(drills.drills(few, random.Random(0))) == []
