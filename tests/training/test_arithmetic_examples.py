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
def knowledge_by_scene():
    return load_knowledge(load_rooms(BUNDLED))


def derivations(knowledge_by_scene, seed=0):
    """Return the given positions and the derivation of each kind of drill, for one rotated room."""
    rng = random.Random(seed)
    room = rotate_room(knowledge_by_scene["room01"], rng.uniform(0, 2 * math.pi))
    positions_and_derivation = {}
    for question, prefix, completion in drills.drills(room, rng):
        if question not in drills.DERIVATIONS:
            continue
        reply = json.loads(prefix + completion)
        assert (reply["answer"], reply["done"]) == (None, False)
        places, derivation = reply["reasoning"].split(". ", 1)
        named_points = re.findall(rf"([a-z][a-z ]*) ({NUMBER}) ({NUMBER})(?:; |$)", places)
        positions = {name: PlanPoint(float(x), float(y)) for name, x, y in named_points}
        positions_and_derivation[question] = positions, derivation
    return room, positions_and_derivation


def test_directions_are_seen_from_the_first_object(knowledge_by_scene):
    _, by_question = derivations(knowledge_by_scene)
    positions, derivation = by_question["Which way?"]
    viewpoint, *others = positions
    assert len(positions) > 5
    parts = [
        re.fullmatch(rf"(.+) ({WAY}) ({NUMBER}), (.+) ({WAY}) ({NUMBER}), {TURN}: ([a-z-]+)", part)
        for part in derivation.split("; ")
    ]
    assert [name for part in parts for name in part.group(1, 4)] == others[: len(parts) * 2]
    assert len(parts) == len(others) // 2
    for part in parts:
        faced, faced_way, ahead, target, target_way, bearing, turn, word = part.groups()
        assert [faced_way, target_way] == [
            way(positions[viewpoint], positions[name]) for name in (faced, target)
        ]
        assert float(ahead) == bearing_of(positions[viewpoint], positions[faced])
        assert float(bearing) == bearing_of(positions[viewpoint], positions[target])
        assert turn == turn_text(ahead, bearing)
        assert word == direction_name("hard", ahead, bearing)


def test_turns_follow_the_walk_in_order(knowledge_by_scene):
    _, by_question = derivations(knowledge_by_scene)
    positions, derivation = by_question["Which turns?"]
    walk = list(positions)
    legs = derivation.split("; ")
    assert len(legs) == len(walk) - 2
    for leg, (start, corner, goal) in zip(
        legs, zip(walk, walk[1:], walk[2:], strict=False), strict=True
    ):
        before, ahead, name, after, bearing, turn, word = re.fullmatch(
            rf"facing ({WAY}) ({NUMBER}), (.+) ({WAY}) ({NUMBER}), {TURN}: (left|right|back)", leg
        ).groups()
        assert name == goal
        assert [before, after] == [
            way(positions[start], positions[corner]),
            way(positions[corner], positions[goal]),
        ]
        assert float(ahead) == bearing_of(positions[start], positions[corner])
        assert float(bearing) == bearing_of(positions[corner], positions[goal])
        assert turn == turn_text(ahead, bearing)
        assert word == direction_name("route", ahead, bearing)


def test_nearness_is_measured_from_the_last_object(knowledge_by_scene):
    room, by_question = derivations(knowledge_by_scene)
    positions, derivation = by_question["How near?"]
    *others, target = positions
    separations, nearest = derivation.rsplit(": ", 1)
    parts = [
        re.fullmatch(rf"(.+) ({WAY}) ({NUMBER})", part).groups() for part in separations.split(", ")
    ]
    assert nearest in others
    assert next(float(metres) for name, _, metres in parts if name == nearest) == min(
        float(metres) for _, _, metres in parts
    )
    assert [name for name, _, _ in parts] == others
    for name, way_text, metres in parts:
        assert way_text == way(positions[target], positions[name])
        truth = distance(room.boxes[name][0], room.boxes[target][0])
        assert float(metres) == pytest.approx(truth, abs=0.051)


def drills_starting(knowledge, start, rounds=40):
    """Return the drills of several rounds whose questions start with a text."""
    generated = [d for seed in range(rounds) for d in drills.drills(knowledge, random.Random(seed))]
    return [drill for drill in generated if drill.question.startswith(start)]


@pytest.mark.parametrize("kind", ["easy", "medium", "hard"])
def test_turns_are_named_as_in_the_question_type(knowledge_by_scene, kind):
    names = set()
    for drill in drills_starting(knowledge_by_scene["room01"], f"Which sides, {kind}? "):
        reply = json.loads(drill.prefix + drill.completion)
        bearings = drill.question.partition("? ")[2].split("; ")
        parts = [
            re.fullmatch(rf"(.+ ({NUMBER})), (.+ ({NUMBER})), {TURN}: ([a-z-]+)", part).groups()
            for part in reply["reasoning"].split("; ")
        ]
        assert [entry for part in parts for entry in (part[0], part[2])] == bearings
        assert len(bearings) == 2 * drills.TURNS_PER_DRILL
        for _, ahead, _, bearing, turn, word in parts:
            assert turn == turn_text(ahead, bearing)
            assert word == direction_name(kind, ahead, bearing)
            names.add(word)
    assert len(names) == {"easy": 2, "medium": 3, "hard": 4}[kind]


def test_every_room_is_drilled_with_different_rotations():
    examples = list(drill_examples(BUNDLED, rounds=3))
    kinds = Counter(re.match(r"[A-Za-z ]+", example.question.text)[0] for example in examples)
    expected_kinds = {kind.rstrip("?") for kind in drills.DERIVATIONS} | {"Which sides"}
    assert kinds == dict.fromkeys(expected_kinds, 8 * 3)
    texts = {(example.question.text, example.prefix, example.completion) for example in examples}
    assert len(texts) == len(examples)


def test_rooms_with_too_few_objects_have_no_drills(knowledge_by_scene):
    room = knowledge_by_scene["room01"]
    names = [name for name, boxes in room.boxes.items() if len(boxes) == 1][
        : drills.MIN_OBJECTS - 1
    ]
    small_room = type(room)({name: room.boxes[name] for name in names})
    assert list(drills.drills(small_room, random.Random(0))) == []
