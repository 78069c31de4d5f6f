"""The bundled homes: small, with enough questions, reproducible byte for byte, and walkable."""

import json
import re
from collections import Counter

import numpy as np
import pytest
from conftest import mostly_slow
from factories.homes import flood

from render_agent.scans.formats.load import load_scene
from render_agent.scans.free_space.free_space import FreeSpace
from render_agent.tasks.boxes.room_ground_truth import read_ground_truth
from render_agent.tasks.rooms import BUNDLED, load_bundled_rooms
from render_agent_lab.room_generator.command import make_room
from render_agent_lab.room_generator.questions.balanced import balanced_questions

SCENES = sorted(path.stem for path in BUNDLED.glob("*.ply"))


@pytest.fixture(scope="module")
def command():
    """Return the seed and the spacing of the command in the README."""
    text = (BUNDLED / "README.md").read_text("utf-8")
    match = re.search(r"make-rooms --to scenes --count 8 --seed (\d+) --spacing ([\d.]+)", text)
    return int(match[1]), float(match[2])


def test_bundle_has_eight_small_homes():
    assert [f"room{number:02d}" for number in range(8)] == SCENES
    assert sum(path.stat().st_size for path in BUNDLED.iterdir()) <= 12e6


def test_questions_are_numerous_and_have_scans():
    questions = load_bundled_rooms()
    assert 100 <= len(questions) <= 200
    assert {question.scene for question in questions} == set(SCENES)
    assert all(question.scan == BUNDLED / f"{question.scene}.ply" for question in questions)
    assert len({question.type for question in questions}) == 9
    assert min(Counter(question.scene for question in questions).values()) >= 12


@pytest.mark.slow
def test_questions_are_reproducible(command):
    truths = [read_ground_truth(BUNDLED / f"{scene}.json") for scene in SCENES]
    lines = (BUNDLED / "questions.jsonl").read_text("utf-8").splitlines()
    rows = balanced_questions(truths, command[0], 3)
    assert [{"id": n, **row} for n, row in enumerate(rows)] == [json.loads(line) for line in lines]


def test_smallest_home_is_reproducible(command, tmp_path):
    smallest = min(SCENES, key=lambda scene: (BUNDLED / f"{scene}.ply").stat().st_size)
    make_room(tmp_path, command[0], int(smallest.removeprefix("room")), command[1])
    for name in (f"{smallest}.ply", f"{smallest}.json"):
        assert (tmp_path / name).read_bytes() == (BUNDLED / name).read_bytes()


@pytest.mark.parametrize("scene", mostly_slow(SCENES, "room02"))
def test_bundled_home_is_walkable(scene):
    """Flood-fill at eye height, 0.2 m away from all surfaces of the scan itself."""
    truth = read_ground_truth(BUNDLED / f"{scene}.json")
    loaded = load_scene(BUNDLED / f"{scene}.ply", scene)
    assert loaded.floor == pytest.approx(0, abs=0.03)
    assert loaded.ceiling == pytest.approx(truth.height, abs=0.03)
    space, cell = FreeSpace.of(loaded), 0.05
    corners = np.concatenate([room.corners for room in truth.rooms])
    x, y = (
        np.arange(low, high, cell) for low, high in zip(corners.min(0), corners.max(0), strict=True)
    )
    points = np.stack(np.meshgrid(x, y, indexing="ij"), -1)
    flat = points.reshape(-1, 2)
    distances = space.tree.query(np.column_stack([flat, np.full(len(flat), 1.6)]))[0]
    inside = np.any([room.holds(flat) for room in truth.rooms], 0)
    for a, b, c, d in truth.ways:
        inside |= ((flat > (a, b)) & (flat < (c, d))).all(1)
    free = np.pad((inside & (distances >= 0.2)).reshape(points.shape[:2]), 1)
    rooms = [np.pad(room.holds(flat).reshape(points.shape[:2]), 1) for room in truth.rooms]
    starts = np.argwhere(free & rooms[0])
    reached = flood(free, tuple(starts[len(starts) // 2]))
    for room in rooms:
        assert (reached & room).sum() >= 0.9 * (free & room).sum() > 0


@pytest.mark.parametrize("scene", mostly_slow(SCENES, "room01", "room02", "room05"))
def test_scans_contain_the_objects_of_the_ground_truth(scene):
    truth = read_ground_truth(BUNDLED / f"{scene}.json")
    loaded = load_scene(BUNDLED / f"{scene}.ply", scene)
    for thing in truth.objects:
        near = np.linalg.norm(loaded.points - thing.centre, axis=1) < np.linalg.norm(thing.size)
        local = np.abs((loaded.points[near] - thing.centre) @ thing.axes.T) - thing.size / 2
        on_it = (local <= 1e-3).all(1)
        assert on_it.sum() >= 20, thing.label
        assert np.abs(local[on_it]).min(0).max() <= 2e-3, "its faces touch its box"
