"""Homes: tight boxes, no overlaps, walkable floors, consistent ground truth."""

import json
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from factories.homes import build_homes, flood, free_floor, truths_of

from render_agent.errors import QuestionsError
from render_agent.scans.boxes import boxes_overlap
from render_agent.tasks.boxes.room_ground_truth import read_ground_truth
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
        for (i, first), (j, second) in combinations(enumerate(truth.objects), 2):
            if first.support != j and second.support != i:
                names = (truth.scene, first.kind, second.kind)
                assert not boxes_overlap(first.box, second.box, 1e-4), names


def test_supported_objects_are_above_their_support(truths):
    num_supported = 0
    for truth in truths.values():
        for thing in truth.objects:
            if thing.support is None:
                continue
            below = truth.objects[thing.support]
            offset = np.abs(below.box.local(thing.centre[None]))[0]
            assert (offset[:2] <= below.size[:2] / 2).all(), (thing.kind, below.kind)
            assert thing.box.bounds[0, 2] > below.box.bounds[0, 2] + 0.2
            assert thing.box.bounds[0, 2] <= below.box.bounds[1, 2] + 0.002
            num_supported += 1
    assert num_supported > 10


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
        # Check it by random sampling too.
        corners = np.concatenate([room.corners for room in truth.rooms])
        low, high = corners.min(0), corners.max(0)
        points = np.random.default_rng(0).uniform(low, high, (40000, 2))
        share = np.any([room.holds(points) for room in truth.rooms], 0).mean()
        assert truth.area == pytest.approx(share * np.prod(high - low), rel=0.03)


def test_all_free_floor_is_reachable(truths):
    for truth in truths.values():
        _, free = free_floor(truth)
        assert (flood(free, tuple(np.argwhere(free)[0])) == free).all(), truth.scene


def test_ground_truth_round_trips(truths, tmp_path):
    for truth in truths.values():
        path = tmp_path / "truth.json"
        write_truth(truth, path)
        read = read_ground_truth(path)
        assert (read.scene, read.kind, read.height) == (truth.scene, truth.kind, truth.height)
        assert read.area == pytest.approx(truth.area)
        assert read.counts == truth.counts
        for before, after in zip(truth.objects, read.objects, strict=True):
            for name in ("label", "kind", "room", "support"):
                assert getattr(before, name) == getattr(after, name)
            for name in ("centre", "size", "axes"):
                assert np.array_equal(getattr(before, name), getattr(after, name))


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
