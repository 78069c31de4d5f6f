"""VSI-Bench's official annotation files."""

import json

import numpy as np
import pytest
from conftest import test_data

from render_agent.errors import QuestionsError
from render_agent.tasks.boxes.annotations import read_annotations

BOX = {
    "centroid": [1.0, 2.0, 0.5],
    "axesLengths": [2.0, 1.0, 0.5],
    "normalizedAxes": [0, 1, 0, -1, 0, 0, 0, 0, 1],
    "min": [0.5, 1.0, 0.25],
    "max": [1.5, 3.0, 0.75],
}
ENTRY = {
    "room_size": 12.5,
    "room_center": [0, 0, 1],
    "object_counts": {"table": 1},
    "object_bbox": {"table": [BOX]},
}


def write_annotations(folder, entries, name="scannet_meta_info_val.json"):
    path = folder / name
    path.write_text(json.dumps(entries))
    return path


@pytest.fixture(scope="module")
def official():
    return read_annotations(test_data("vsibench", "scannet_meta_info_val.json").parent)


def test_all_benchmark_scenes_are_annotated(official):
    folder = test_data("vsibench", "scannet_meta_info_val.json").parent
    for dataset, count in {"arkitscenes": 150, "scannet": 88, "scannetpp": 50}.items():
        scenes = read_annotations(folder / f"{dataset}_meta_info_val.json")
        assert len(scenes) == count
        assert scenes.keys() <= official.keys()
    assert all(name == scene.scene for name, scene in official.items())
    assert all(scene.objects and scene.room_size > 0 for scene in official.values())


def test_box_corners_agree_with_the_official_bounds(official):
    for name in ("arkitscenes", "scannet", "scannetpp"):
        rows = json.loads(test_data("vsibench", f"{name}_meta_info_val.json").read_text())
        for scene, row in rows.items():
            boxes = [box for group in row["object_bbox"].values() for box in group]
            for entry, box in zip(official[scene].objects, boxes, strict=True):
                np.testing.assert_allclose(entry.corners.min(axis=0), box["min"], atol=1e-6)
                np.testing.assert_allclose(entry.corners.max(axis=0), box["max"], atol=1e-6)


def test_annotated_room_sizes_are_the_benchmark_answers(official):
    rows = [
        json.loads(line)
        for line in test_data("vsibench", "test.jsonl").read_text("utf-8").splitlines()
    ]
    sizes = [row for row in rows if row["question_type"] == "room_size_estimation"]
    agreements = [
        abs(official[row["scene_name"]].room_size - float(row["ground_truth"])) < 0.051
        for row in sizes
    ]
    assert sum(agreements) == len(agreements) == 288


def test_axes_are_rows_and_labels_are_kept(tmp_path):
    [(name, scene)] = read_annotations(write_annotations(tmp_path, {"room7": ENTRY})).items()
    assert (name, scene.room_size, scene.counts) == ("room7", 12.5, {"table": 1})
    [table] = scene.objects
    assert table.label == "table"
    np.testing.assert_array_equal(table.axes[0], [0, 1, 0])
    np.testing.assert_allclose(table.corners.min(axis=0), BOX["min"])
    np.testing.assert_allclose(table.corners.max(axis=0), BOX["max"])


def test_boxes_may_be_python_literals_in_strings(tmp_path):
    literals = {
        **ENTRY,
        "object_bbox": str(ENTRY["object_bbox"]),
        "object_counts": str(ENTRY["object_counts"]),
    }
    [plain] = read_annotations(write_annotations(tmp_path, {"s": ENTRY})).values()
    [literal] = read_annotations(write_annotations(tmp_path, {"s": literals})).values()
    assert literal.counts == plain.counts
    np.testing.assert_array_equal(literal.objects[0].corners, plain.objects[0].corners)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"object_bbox": "{'table': [print()]}"}, "malformed"),
        ({"object_bbox": {"table": [{**BOX, "centroid": [1, 2]}]}}, "centroid"),
        ({"object_bbox": {"table": [{**BOX, "axesLengths": [1, -1, 1]}]}}, "axesLengths"),
        ({"object_bbox": {"table": [{**BOX, "normalizedAxes": [1] * 9}]}}, "axes of a table"),
        ({"room_size": -1}, "room_size"),
        ({"room_size": None}, "room_size"),
        ({"object_bbox": "[" * 100_000}, "scene 's1': "),
        ({"object_counts": {"table": float("inf")}}, "object_counts"),
        ({"object_bbox": {"table": [{**BOX, "centroid": [1, 2, float("nan")]}]}}, "centroid"),
        ({"object_bbox": {"table": BOX}}, "scene 's1': "),
        ({"object_bbox": {"table": None}}, "object_bbox"),
        ({"room_size": 1e9}, "room_size"),
        ({"room_size": 1e-7}, "room_size"),
        ({"room_size": 5e-324}, "room_size"),
        ({"object_bbox": {"\ud800": [BOX]}}, "category's name"),
        ({"object_counts": None}, "object_counts"),
    ],
)  # fmt: skip
def test_malformed_annotations_name_file_and_scene(tmp_path, changes, message):
    path = write_annotations(tmp_path, {"s1": {**ENTRY, **changes}})
    with pytest.raises(QuestionsError, match=message) as error:
        read_annotations(path)
    assert f"{path}, scene 's1': " in str(error.value)


def test_a_missing_field_is_named(tmp_path):
    entry = {name: value for name, value in ENTRY.items() if name != "object_bbox"}
    with pytest.raises(QuestionsError, match="object_bbox"):
        read_annotations(write_annotations(tmp_path, {"s": entry}))


def test_folder_without_annotations_is_rejected(tmp_path):
    with pytest.raises(QuestionsError, match="scannet_meta_info"):
        read_annotations(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "{}", "{"])
def test_file_without_annotations_is_rejected(tmp_path, text):
    path = tmp_path / "scannet_meta_info_val.json"
    path.write_text(text)
    with pytest.raises(QuestionsError, match="annotations"):
        read_annotations(path)
