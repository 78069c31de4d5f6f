"""Edited scenes: images, boxes and mesh stay consistent."""

import json
from dataclasses import replace

import numpy as np
import pytest
from factories.changes import OBJECTS, changeable_room
from factories.scenes import GREEN, RED, write_ply

from render_agent.errors import SceneError
from render_agent.render.make_renderer import make_renderer
from render_agent.scans.boxes import upright_box
from render_agent.scans.camera import Camera
from render_agent.scans.edits import Edit, ObjectParts, edit_boxes, edit_scene
from render_agent.tasks.scene_reader import read_scene

# Looks from the middle of the room towards the second chair, which appears left of the image centre.
AT_CHAIR = Camera((1.8, 2.4, 1.2), -90.0, -25.0)


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    folder = tmp_path_factory.mktemp("edits")
    changeable_room(folder)
    return read_scene(folder / "room.ply", "room")


@pytest.fixture(scope="module")
def boxes():
    by_label = {}
    for label, low, high, _ in OBJECTS:
        by_label.setdefault(label, []).append(upright_box(low, high))
    return by_label


def red(scene):
    """Return the number of red pixels at AT_CHAIR, and their mean column."""
    image = make_renderer().draw(scene, AT_CHAIR, 160, 120).colours.astype(int)
    mask = (image[..., 0] > 100) & (image[..., 1:].max(-1) < 60)
    return mask.sum(), np.nonzero(mask)[1].mean() if mask.any() else None


def test_removed_object_disappears_from_images_and_boxes(scene, boxes):
    edits = [Edit("remove", "chair", 0), Edit("remove", "shelf")]
    without_chair = edit_scene(scene, boxes, edits)
    one_left, none_left = red(without_chair)[0], red(edit_scene(without_chair, {"chair": boxes["chair"][1:]}, [Edit("remove", "chair")]))[0]  # fmt: skip
    assert red(scene)[0] > one_left > none_left == 0
    remaining = edit_boxes(boxes, edits)
    assert remaining["shelf"] == []
    assert remaining["chair"] == boxes["chair"][1:]
    assert len(without_chair.points) == len(scene.points)
    assert without_chair.bounds is scene.bounds


def test_moved_object_is_inside_its_moved_box(scene, boxes):
    edit = Edit("transform", "chair", 1, shift=(-2.0, 0.3, 0.0))
    moved = edit_scene(scene, boxes, [edit])
    box = edit_boxes(boxes, [edit])["chair"][1]
    chair_points = ObjectParts(scene, boxes).things["chair", 1]
    assert np.abs(box.local(moved.points[chair_points])).max(0) == pytest.approx(
        box.size / 2, abs=1e-5
    )
    other_points = np.setdiff1d(np.arange(len(scene.points)), chair_points)
    assert (moved.points[other_points] == scene.points[other_points]).all()


def test_object_moves_from_left_to_right_in_the_image(scene, boxes):
    left = edit_scene(scene, boxes, [Edit("remove", "chair", 0)])
    right = edit_scene(left, boxes, [Edit("transform", "chair", 1, shift=(-2.0, 0.0, 0.0))])
    assert red(left)[1] < 80 < red(right)[1]


def test_copy_adds_an_object(scene, boxes):
    edit = Edit("copy", "chair", 0, shift=(0.8, 0.9, 0.0))
    copied = edit_scene(scene, boxes, [edit])
    new_boxes = edit_boxes(boxes, [edit])
    assert red(copied)[0] > red(scene)[0]
    assert ObjectParts(copied, new_boxes).things.keys() == ObjectParts(
        scene, boxes
    ).things.keys() | {("chair", 2)}


@pytest.mark.parametrize(
    "edit", [Edit("recolour", "chair"), Edit("transform", shift=(1.0, 0.0, 0.0))]
)
def test_edits_of_earlier_versions_are_rejected(scene, boxes, edit):
    with pytest.raises(SceneError, match="earlier"):
        edit_scene(scene, boxes, [edit])


def test_floor_is_added_only_where_none_was_scanned(scene, boxes):
    down = Camera((0.8, 3.35, 2.2), 0.0, -90.0)
    level = (scene.points[scene.faces][:, :, 2] < 0.01).all(1)
    middle = scene.points[scene.faces].mean(1)
    under = level & (middle[:, 0] < 1.4) & (middle[:, 1] > 2.9)
    bare = replace(scene, faces=scene.faces[~under])
    for room, has_new_floor in ((bare, True), (scene, False)):
        without_sofa = edit_scene(room, boxes, [Edit("remove", "sofa")])
        depth = make_renderer().draw(without_sofa, down, 64, 48).depth
        assert depth[17:31, 27:37] == pytest.approx(2.2, abs=0.02)
        assert (len(without_sofa.points) > len(scene.points)) is has_new_floor
    shelf = Edit("transform", "shelf", shift=(-3.85, 2.7, 0.0))
    swapped = edit_scene(bare, boxes, [shelf, Edit("remove", "sofa")])
    assert not (swapped.colours[len(scene.points) :] == GREEN).all(1).any()


def test_objects_that_cannot_be_isolated_are_not_edited(scene, boxes):
    wall = scene.faces[0, 0]
    welded = replace(
        scene,
        points=np.concatenate([scene.points, np.float32([(0.8, 0.8, 0.4)])]),
        colours=np.concatenate([scene.colours, scene.colours[:1]]),
        faces=np.concatenate([scene.faces, np.int32([(wall, wall + 1, len(scene.points))])]),
    )
    with pytest.raises(SceneError, match="chair 1"):
        edit_scene(welded, boxes, [Edit("remove", "chair")])
    with pytest.raises(SceneError, match="not a mesh"):
        edit_scene(replace(scene, faces=None), boxes, [Edit("remove", "chair")])


def test_instance_labels_isolate_objects_connected_to_the_floor(scene, boxes, tmp_path):
    """ScanNet's meshes are connected; label files next to them assign vertices to objects."""
    chair = np.flatnonzero((scene.points[:, 0] < 1.01) & (scene.colours == RED).all(1))
    web = [(0, int(corner), int(chair[0])) for corner in chair]
    faces = np.concatenate([scene.faces, np.array(web, np.int32)])
    path = write_ply(tmp_path / "scene0_00_vh_clean_2.ply", scene.points, scene.colours, faces)
    labelled_scene = read_scene(path, "scene0_00")
    with pytest.raises(SceneError, match="chair 1"):
        edit_scene(labelled_scene, boxes, [Edit("remove", "chair")])

    segments = np.isin(np.arange(len(scene.points)), chair) * 7
    (tmp_path / "scene0_00_vh_clean_2.0.010000.segs.json").write_text(json.dumps({"segIndices": segments.tolist()}))  # fmt: skip
    (tmp_path / "scene0_00.aggregation.json").write_text(json.dumps({"segGroups": [{"objectId": 0, "segments": [7], "label": "office chair"}]}))  # fmt: skip
    without_chair = edit_scene(labelled_scene, boxes, [Edit("remove", "chair")])
    assert not np.isin(without_chair.faces, chair).any()
    assert red(without_chair)[0] == red(edit_scene(scene, boxes, [Edit("remove", "chair")]))[0] > 0
    assert ObjectParts(labelled_scene, boxes).things.keys() == {("chair", 0)}
    (tmp_path / "scene0_00_vh_clean_2.0.010000.segs.json").write_text('{"segIndices": [7, 7]}')
    with pytest.raises(SceneError, match="2 vertices"):
        ObjectParts(labelled_scene, boxes)


def test_no_gap_remains_around_a_labelled_object_connected_to_the_floor(tmp_path):
    steps = np.linspace(0, 4, 17)
    x, y = np.meshgrid(steps, steps)
    chair = (np.abs(x - 2) < 0.6) & (np.abs(y - 2) < 0.6)
    seat = (np.abs(x - 2) < 0.3) & (np.abs(y - 2) < 0.3)
    points = np.column_stack([x.ravel(), y.ravel(), 0.8 * seat.ravel()]).astype(np.float32)
    corner = np.arange(17 * 17).reshape(17, 17)
    a, b, c, d = (corner[i, j].ravel() for i in (slice(16), slice(1, 17)) for j in (slice(16), slice(1, 17)))  # fmt: skip
    faces = np.concatenate([np.stack([a, b, d], 1), np.stack([a, d, c], 1)]).astype(np.int32)
    colours = np.where(chair.reshape(-1, 1), RED, (120, 120, 120)).astype(np.uint8)
    path = write_ply(tmp_path / "scene0_00_vh_clean_2.ply", points, colours, faces)
    (tmp_path / "scene0_00_vh_clean_2.0.010000.segs.json").write_text(json.dumps({"segIndices": chair.ravel().astype(int).tolist()}))  # fmt: skip
    (tmp_path / "scene0_00.aggregation.json").write_text('{"segGroups": [{"segments": [1]}]}')
    scene = read_scene(path, "scene0_00")
    boxes = {"chair": [upright_box((1.5, 1.5, 0.0), (2.5, 2.5, 0.8))]}
    down = Camera((2.0, 2.0, 1.5), 0.0, -90.0)
    for edit in (Edit("remove", "chair"), Edit("transform", "chair", shift=(9.0, 0.0, 0.0))):
        depth = make_renderer().draw(edit_scene(scene, boxes, [edit]), down, 64, 48).depth
        assert depth == pytest.approx(1.5, abs=0.01)
