"""True maps: hand-made scenes, all scenes of VSI-Bench, and the export."""

import json

import numpy as np
import pytest
from conftest import test_data
from factories.exports import export
from factories.runs import make_questions, play, walking_engine

import render_agent
from render_agent.errors import UsageError
from render_agent.report.export.true_map import grid_map, metric_map
from render_agent.scans.boxes import OrientedBox
from render_agent.tasks.ground_truth import Facts, annotated_facts


def facts(**places):
    boxes = {
        name: [OrientedBox(np.array([x, y, 0.0]), np.full(3, 0.2), np.eye(3)) for x, y in positions]
        for name, positions in places.items()
    }
    return Facts({}, 12.0, boxes)


def test_grid_preserves_directions_and_scale():
    scene_facts = facts(chair=[(0.1, 0.1), (9.9, 0.1)], lamp=[(5.0, 2.1)])
    assert grid_map(scene_facts) == {"chair": [[0, 4], [9, 4]], "lamp": [[5, 6]]}
    grid = metric_map(scene_facts)["grid"]
    assert grid == {"corner": [0.0, -3.9], "metres_per_cell": 1.0}
    assert grid_map(Facts({}, 3.0, {})) == {}


def test_bundled_rooms_have_maps(tmp_path):
    options = {"benchmark": "rooms", "engine": "scripted", "views": "none", "max_turns": 1}
    run = render_agent.run(**options, output=tmp_path / "runs").path
    export(run, "--format", "maps", "--to", tmp_path / "maps")
    printed = {
        name: json.loads((tmp_path / "maps" / f"{name}.json").read_text())
        for name in ("grid", "metric")
    }
    assert {f"room0{n}" for n in range(8)} == set(printed["grid"])
    for scene, cells in printed["grid"].items():
        objects = printed["metric"][scene]["objects"]
        assert {name: len(positions) for name, positions in cells.items()} == {
            n: len(s) for n, s in objects.items()
        }
        corner, size = (
            printed["metric"][scene]["grid"][name] for name in ("corner", "metres_per_cell")
        )
        for name, positions in cells.items():
            for cell, box in zip(positions, objects[name], strict=True):
                middle = np.array(corner) + size * (np.array(cell) + 0.5)
                assert np.abs(middle - box["position"][:2]).max() <= size / 2 + 1e-3


def test_scenes_without_boxes_have_no_map(tmp_path):
    path, _ = play(tmp_path, make_questions(tmp_path, 1), walking_engine(1), max_turns=1)
    with pytest.raises(UsageError, match="--annotations"):
        export(path, "--format", "maps", "--to", tmp_path / "maps")


def test_all_vsibench_scenes_have_maps():
    folder = test_data("vsibench", "scannet_meta_info_val.json").parent
    grid = {scene: grid_map(scene_facts) for scene, scene_facts in annotated_facts(folder).items()}
    assert len(grid) == 288
    assert sum(len(cells) for scene in grid.values() for cells in scene.values()) == 3197
    rows = test_data("vsibench", "test.jsonl").read_text().splitlines()
    scenes = {json.loads(row)["scene_name"] for row in rows}
    assert scenes == set(grid)
    cells = [cell for scene in grid.values() for positions in scene.values() for cell in positions]
    assert {value for cell in cells for value in cell} == set(range(10))
