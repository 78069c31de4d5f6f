"""True maps: of hand-made scenes, of all scenes of VSI-Bench, and through the command."""

import json

import numpy as np
from conftest import test_data

from render_agent.beliefs.true_map import grid_map, metric_map
from render_agent.geometry.boxes import OrientedBox
from render_agent.questions.ground_truth import Facts


def facts(**places):
    boxes = {
        name: [OrientedBox(np.array([x, y, 0.0]), np.full(3, 0.2), np.eye(3)) for x, y in some]
        for name, some in places.items()
    }
    return Facts({}, 12.0, boxes)


def test_cells_keep_directions_and_the_scale_of_both_axes():
    known = facts(chair=[(0.1, 0.1), (9.9, 0.1)], lamp=[(5.0, 2.1)])
    assert grid_map(known) == {"chair": [[0, 4], [9, 4]], "lamp": [[5, 6]]}
    grid = metric_map(known)["grid"]
    assert grid == {"corner": [0.0, -3.9], "metres_per_cell": 1.0}
    assert grid_map(Facts({}, 3.0, {})) == {}


def test_rooms_come_with_theirs(type_in, tmp_path):
    code, out, _ = type_in(
        "maps", "--benchmark", "rooms", "--to", "maps", "--json", folder=tmp_path
    )
    assert code == 0
    printed = json.loads(out)
    assert {f"room0{n}" for n in range(8)} == set(printed["grid"])
    assert json.loads((tmp_path / "maps" / "grid.json").read_text()) == printed["grid"]
    assert json.loads((tmp_path / "maps" / "metric.json").read_text()) == printed["metric"]
    for scene, cells in printed["grid"].items():
        objects = printed["metric"][scene]["objects"]
        assert {name: len(some) for name, some in cells.items()} == {
            n: len(s) for n, s in objects.items()
        }
        corner, size = (
            printed["metric"][scene]["grid"][name] for name in ("corner", "metres_per_cell")
        )
        for name, some in cells.items():
            for cell, thing in zip(some, objects[name], strict=True):
                middle = np.array(corner) + size * (np.array(cell) + 0.5)
                assert np.abs(middle - thing["position"][:2]).max() <= size / 2 + 1e-3


def test_without_annotations_it_says_what_to_fetch(type_in, tmp_path):
    code, _, err = type_in("maps", folder=tmp_path)
    assert code == 2
    assert "--annotations DIR" in err
    assert "--benchmark rooms" in err


def test_all_scenes_of_vsibench_have_one(type_in, tmp_path):
    where = test_data("vsibench", "scannet_meta_info_val.json").parent
    code, out, _ = type_in("maps", "--annotations", where, "--to", tmp_path, folder=tmp_path)
    assert code == 0
    assert out.startswith("288 scenes with 3,197 objects")
    grid = json.loads((tmp_path / "grid.json").read_text())
    rows = test_data("vsibench", "test.jsonl").read_text().splitlines()
    asked = {json.loads(row)["scene_name"] for row in rows}
    assert asked == set(grid)
    cells = [cell for scene in grid.values() for some in scene.values() for cell in some]
    assert {value for cell in cells for value in cell} == set(range(10))
