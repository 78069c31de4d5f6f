"""Drills derive correct results from the given positions, in the wording of the expert's derivations."""

import json
import math
import random
import re
from collections import Counter

import pytest
from factories.derivations import NUMBER, WAY, direction_name, turn_text

from render_agent.scans.boxes import distance
from render_agent.tasks.rooms import BUNDLED, load_rooms
from render_agent_lab.expert.derive import PlanPoint, bearing_of
from render_agent_lab.expert.homes import load_knowledge
from training import arithmetic_examples as drills
from training.text_examples import drill_examples, rotate_room

TURN = f"turn ({NUMBER} {NUMBER} {NUMBER})"


def way(start, end):
    """Return start, end and difference in metres along x, then along y, as in a derivation."""
    return " ".join(
        f"{a} {b} {b - a:.1f}".replace("-0.0", "0.0") for a, b in zip(start, end, strict=True)
    )


@pytest.fixture(scope="module")
def known():
    return load_knowledge(load_rooms(BUNDLED))


def drilled(known, seed=0):
    """Return the given positions and the derivation of each kind of drill, for one rotated room."""
    chance = random.Random(seed)
    room = rotate_room(known["room01"], chance.uniform(0, 2 * math.pi))
    made = {}
    for asked, given, learned in drills.drills(room, chance):
        if asked not in drills.KINDS:
            continue
        reply = json.loads(given + learned)
        assert (reply["answer"], reply["done"]) == (None, False)
        places, said = reply["reasoning"].split(". ", 1)
        found = re.findall(rf"([a-z][a-z ]*) ({NUMBER}) ({NUMBER})(?:; |$)", places)
        made[asked] = {name: PlanPoint(float(x), float(y)) for name, x, y in found}, said
    return room, made


def test_directions_are_seen_from_the_first_object(known):
    _, made = drilled(known)
    spots, said = made["Which way?"]
    stand, *others = spots
    assert len(spots) > 5
    parts = [
        re.fullmatch(rf"(.+) ({WAY}) ({NUMBER}), (.+) ({WAY}) ({NUMBER}), {TURN}: ([a-z-]+)", part)
        for part in said.split("; ")
    ]
    assert [name for part in parts for name in part.group(1, 4)] == others[: len(parts) * 2]
    assert len(parts) == len(others) // 2
    for part in parts:
        one, first, ahead, other, second, there, turn, word = part.groups()
        assert [first, second] == [way(spots[stand], spots[name]) for name in (one, other)]
        assert float(ahead) == bearing_of(spots[stand], spots[one])
        assert float(there) == bearing_of(spots[stand], spots[other])
        assert turn == turn_text(ahead, there)
        assert word == direction_name("hard", ahead, there)


def test_turns_follow_the_walk_in_order(known):
    _, made = drilled(known)
    spots, said = made["Which turns?"]
    walk = list(spots)
    legs = said.split("; ")
    assert len(legs) == len(walk) - 2
    for leg, (here, corner, goal) in zip(
        legs, zip(walk, walk[1:], walk[2:], strict=False), strict=True
    ):
        first, ahead, name, second, there, turn, word = re.fullmatch(
            rf"facing ({WAY}) ({NUMBER}), (.+) ({WAY}) ({NUMBER}), {TURN}: (left|right|back)", leg
        ).groups()
        assert name == goal
        assert [first, second] == [way(spots[here], spots[corner]), way(spots[corner], spots[goal])]
        assert float(ahead) == bearing_of(spots[here], spots[corner])
        assert float(there) == bearing_of(spots[corner], spots[goal])
        assert turn == turn_text(ahead, there)
        assert word == direction_name("route", ahead, there)


def test_nearness_is_measured_from_the_last_object(known):
    room, made = drilled(known)
    spots, said = made["How near?"]
    *others, target = spots
    said, nearest = said.rsplit(": ", 1)
    parts = [re.fullmatch(rf"(.+) ({WAY}) ({NUMBER})", part).groups() for part in said.split(", ")]
    assert nearest in others
    assert next(float(far) for name, _, far in parts if name == nearest) == min(
        float(far) for _, _, far in parts
    )
    assert [name for name, _, _ in parts] == others
    for name, along, metres in parts:
        assert along == way(spots[target], spots[name])
        truth = distance(room.boxes[name][0], room.boxes[target][0])
        assert float(metres) == pytest.approx(truth, abs=0.051)


def asked_for(known, beginning, rounds=40):
    """Return the drills of several rounds whose questions have the given beginning."""
    made = [drill for seed in range(rounds) for drill in drills.drills(known, random.Random(seed))]
    return [drill for drill in made if drill.asked.startswith(beginning)]


@pytest.mark.parametrize("kind", ["easy", "medium", "hard"])
def test_turns_are_named_as_in_the_question_type(known, kind):
    words = set()
    for drill in asked_for(known["room01"], f"Which sides, {kind}? "):
        reply = json.loads(drill.given + drill.learned)
        given = drill.asked.partition("? ")[2].split("; ")
        parts = [
            re.fullmatch(rf"(.+ ({NUMBER})), (.+ ({NUMBER})), {TURN}: ([a-z-]+)", part).groups()
            for part in reply["reasoning"].split("; ")
        ]
        assert [said for part in parts for said in (part[0], part[2])] == given
        assert len(given) == 2 * drills.TURNS_PER_DRILL
        for _, ahead, _, there, turn, word in parts:
            assert turn == turn_text(ahead, there)
            assert word == direction_name(kind, ahead, there)
            words.add(word)
    assert len(words) == {"easy": 2, "medium": 3, "hard": 4}[kind]


def test_every_room_is_drilled_with_different_rotations():
    made = list(drill_examples(BUNDLED, rounds=3))
    kinds = Counter(re.match(r"[A-Za-z ]+", example.question.text)[0] for example in made)
    drilled_with = {kind.rstrip("?") for kind in drills.KINDS} | {"Which sides"}
    assert kinds == dict.fromkeys(drilled_with, 8 * 3)
    texts = {(example.question.text, example.given, example.learned) for example in made}
    assert len(texts) == len(made)


def test_rooms_with_too_few_objects_have_no_drills(known):
    room = known["room01"]
    names = [name for name, some in room.boxes.items() if len(some) == 1][: drills.MIN_OBJECTS - 1]
    few = type(room)({name: room.boxes[name] for name in names})
    assert list(drills.drills(few, random.Random(0))) == []
