"""Homes: tight boxes, no overlaps, walkable floors, consistent ground truth."""

import json
from collections import Counter

import numpy as np
import pytest
from factories.homes import build_homes, free_floor, truths_of

from render_agent.errors import QuestionsError
from render_agent.scans.boxes import boxes_overlap
from render_agent.scans.room_ground_truth import read_ground_truth
from render_agent_lab.room_generator.write import write_truth


@pytest.fixture(scope="module")
def homes(tmp_path_factory):
    return build_homes(tmp_path_factory)


@pytest.fixture(scope="module")
def truths(homes):
    return truths_of(homes)


def test_boxes_are_tight(homes, truths):
    for key, home in homes.items():
        for item, thing in zip(home.items, truths[key].objects, strict=True):
            local = (item.mesh.points - thing.centre) @ thing.axes.T
            assert np.abs(local).max(0) == pytest.approx(thing.size / 2, abs=2e-5), thing.label
            assert local.min(0) == pytest.approx(-thing.size / 2, abs=2e-5), thing.label


def test_objects_do_not_overlap(truths):
    for truth in truths.values():
        for number, one in enumerate(truth.objects):
            for other in truth.objects[number + 1 :]:
                supported = truth.objects[one.support or 0] is other and one.support is not None
                holds = truth.objects[other.support or 0] is one and other.support is not None
                assert supported or holds or not boxes_overlap(one.box, other.box, 1e-4), (
                    truth.scene,
                    one.kind,
                    other.kind,
                )


def test_supported_objects_are_above_their_support(truths):
    seen = 0
    for truth in truths.values():
        for thing in truth.objects:
            if thing.support is None:
                continue
            below = truth.objects[thing.support]
            within = np.abs(below.box.local(thing.centre[None]))[0]
            assert (within[:2] <= below.size[:2] / 2).all(), (thing.kind, below.kind)
            assert thing.box.bounds[0, 2] > below.box.bounds[0, 2] + 0.2
            assert thing.box.bounds[0, 2] <= below.box.bounds[1, 2] + 0.002
            seen += 1
    assert seen > 20


def test_furniture_is_inside_its_room(homes):
    for home in homes.values():
        for item in home.items:
            low, high = item.box.bounds
            assert -1e-9 <= low[2] <= high[2] <= home.plan.height
            room = home.plan.rooms[item.room]
            if item.built.kind not in ("window", "door"):
                corners = item.box.corners[:, :2]
                assert room.holds(corners * 0.999 + corners.mean(0) * 0.001).all(), item.built.kind


def test_counts_match_the_items(homes, truths):
    for key, home in homes.items():
        assert truths[key].counts == Counter(item.label for item in home.items)


def test_area_matches_the_polygons(truths):
    for truth in truths.values():
        shoelace = 0.0
        for room in truth.rooms:
            for (ax, ay), (bx, by) in zip(room.corners, np.roll(room.corners, -1, 0), strict=True):
                shoelace += (ax * by - bx * ay) / 2
        assert truth.area == pytest.approx(shoelace)
        # also by random sampling
        low, high = (
            np.min([room.corners.min(0) for room in truth.rooms], 0),
            np.max([room.corners.max(0) for room in truth.rooms], 0),
        )
        u = np.random.default_rng(0).uniform(low, high, (40000, 2))
        inside = np.any([room.holds(u) for room in truth.rooms], 0).mean()
        assert truth.area == pytest.approx(inside * np.prod(high - low), rel=0.03)


def test_all_free_floor_is_reachable(truths):
    for truth in truths.values():
        assert flooded(truth) == pytest.approx(1.0), truth.scene


def flooded(truth):
    """Return the share of free floor that a flood fill from one cell reaches, in plain Python."""
    _, free = free_floor(truth)
    start = tuple(np.argwhere(free)[0])
    reached, waiting = {start}, [start]
    while waiting:
        x, y = waiting.pop()
        for step in ((x + 1, y), (x - 1, y), (x, y + 1), (x, y - 1)):
            if free[step] and step not in reached:
                reached.add(step)
                waiting.append(step)
    return len(reached) / free.sum()


def test_ground_truth_round_trips(truths, tmp_path):
    for truth in truths.values():
        path = tmp_path / "truth.json"
        write_truth(truth, path)
        again = read_ground_truth(path)
        assert (again.scene, again.kind, again.height) == (truth.scene, truth.kind, truth.height)
        assert again.area == pytest.approx(truth.area)
        assert again.counts == truth.counts
        for one, other in zip(truth.objects, again.objects, strict=True):
            assert (one.label, one.kind, one.room, one.support) == (
                other.label,
                other.kind,
                other.room,
                other.support,
            )
            assert np.array_equal(one.centre, other.centre)
            assert np.array_equal(one.size, other.size)
            assert np.array_equal(one.axes, other.axes)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"object_bbox": 3}'])
def test_other_files_are_rejected_as_ground_truth(tmp_path, text):
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(QuestionsError, match=r"other\.json"):
        read_ground_truth(path)


def test_ground_truth_uses_the_benchmark_keys(truths, tmp_path):
    path = tmp_path / "truth.json"
    write_truth(truths[5, 0], path)
    data = json.loads(path.read_text())
    for label, boxes in data["object_bbox"].items():
        assert data["object_counts"][label] == len(boxes)
        for box in boxes:
            assert {"centroid", "axesLengths", "normalizedAxes", "min", "max"} <= box.keys()
            assert len(box["normalizedAxes"]) == 9
