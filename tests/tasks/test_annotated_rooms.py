"""Stand-in rooms: all boxes in their category's colour, on a floor of the annotated size."""

import json
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import test_data

from render_agent.errors import SceneError
from render_agent.render.make_renderer import make_renderer
from render_agent.scans.cache import SceneCache
from render_agent.scans.camera import Camera
from render_agent.scans.free_space.free_space import FreeSpace
from render_agent.tasks.boxes.annotated_room import (
    ROOM_HEIGHT_METRES,
    TILE_COLOURS,
    build_annotated_room,
    category_colour,
)
from render_agent.tasks.boxes.annotations import (
    BoxedObject,
    SceneAnnotation,
    read_annotations,
)
from render_agent.tasks.scene_reader import read_scene

EYE = np.eye(3)
ABOUT = np.array([[0.8, 0.6, 0.0], [-0.6, 0.8, 0.0], [0.0, 0.0, 1.0]])


def box(label, centre, size, axes=EYE):
    return BoxedObject(np.array(centre, float), np.array(size, float), axes, label)


def annotation(*objects, area=12.0):
    return SceneAnnotation("room", {}, area, objects)


def floor_area(scene):
    """Return the area of horizontal faces at floor height with a tile's colour, in square metres."""
    corners = scene.points[scene.faces].astype(float)
    tiles = (
        (scene.colours[scene.faces[:, 0]][:, None] == np.array(TILE_COLOURS))
        .all(axis=2)
        .any(axis=1)
    )
    level = np.ptp(corners[:, :, 2], axis=1) == 0
    low = np.abs(corners[:, 0, 2] - scene.floor) < 1e-5
    edges = corners[tiles & level & low]
    return 0.5 * np.abs(np.cross(edges[:, 1] - edges[:, 0], edges[:, 2] - edges[:, 0])[:, 2]).sum()


@pytest.fixture(scope="module")
def official():
    return read_annotations(test_data("vsibench", "scannet_meta_info_val.json").parent)


@pytest.fixture(
    scope="module",
    params=[12, pytest.param(1, marks=pytest.mark.slow)],
    ids=["every twelfth", "all"],
)
def rooms(official, request):
    assert len(official) == 288
    names = list(official)[:: request.param]
    return {name: build_annotated_room(official[name]) for name in names}


def test_rooms_contain_their_boxes(official, rooms):
    for name, scene in rooms.items():
        corners = np.concatenate([entry.corners for entry in official[name].objects])
        assert (corners >= scene.bounds[0] - 1e-6).all(), name
        assert (corners <= scene.bounds[1] + 1e-6).all(), name
        assert corners[:, 2].min() == pytest.approx(scene.floor)
        assert scene.ceiling >= scene.floor + ROOM_HEIGHT_METRES
        points = scene.points.astype(float)
        assert np.isfinite(points).all()
        assert (points.min(axis=0) >= scene.bounds[0] - 1e-4).all()
        assert (points.max(axis=0) <= scene.bounds[1] + 1e-4).all()
        assert scene.faces.dtype == np.int32
        assert scene.faces.min() == 0
        assert scene.faces.max() == len(scene.points) - 1
        assert scene.colours.shape == scene.points.shape


def test_floor_area_equals_the_annotated_room_size(official, rooms):
    for name, scene in rooms.items():
        assert floor_area(scene) == pytest.approx(official[name].room_size, rel=1e-3), name


def test_box_corners_are_mesh_vertices(official, rooms):
    from scipy.spatial import cKDTree

    for name, scene in rooms.items():
        corners = np.concatenate([entry.corners for entry in official[name].objects])
        distances, _ = cKDTree(scene.points).query(corners)
        assert distances.max() < 1e-4, name


def test_start_position_is_outside_all_boxes(official, rooms):
    for name in list(rooms)[:: len(rooms) // 12]:
        scene = rooms[name]
        start = FreeSpace.of(scene).start_position()
        assert start[2] == pytest.approx(scene.floor + 1.6)
        for entry in official[name].objects:
            local = np.abs(entry.axes @ (start - entry.centre))
            assert (local > entry.size / 2).any(), f"inside a {entry.label} of {name}"


def test_box_is_rendered_in_place_in_its_category_colour():
    scene = build_annotated_room(annotation(box("oven", (2, 0, 0.5), (0.6, 0.8, 1.0)), area=30.0))
    renderer = make_renderer("rasteriser")
    camera = Camera((0.0, 0.0, 0.5), 0.0, 0.0, 60.0)
    frame = renderer.draw(scene, camera, 320, 240)
    renderer.close()
    hue = category_colour("oven") / category_colour("oven").max()
    normalised = frame.colours / np.maximum(frame.colours.max(axis=2, keepdims=True), 1)
    mask = (np.abs(normalised - hue) < 0.03).all(axis=2)
    rows, columns = np.nonzero(mask)
    focal, near = camera.focal(240), 1.7
    np.testing.assert_allclose(
        [columns.min(), columns.max() + 1, rows.min(), rows.max() + 1],
        [160 - focal * 0.4 / near, 160 + focal * 0.4 / near, 120 - focal * 0.5 / near, 120 + focal * 0.5 / near],
        atol=1.5,
    )  # fmt: skip
    inside = frame.colours[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
    assert np.ptp(inside.reshape(-1, 3), axis=0).max() == 0


def test_box_inside_a_box_is_visible():
    shelf = box("bookshelf", (2, 0, 1), (1, 2, 2), ABOUT)
    book = box("book", (2, 0, 1), (0.3, 0.3, 0.3))
    scene = build_annotated_room(annotation(shelf, book, area=60.0))
    assert np.abs(scene.points - shelf.corners[0]).max(axis=1).min() < 1e-5
    renderer = make_renderer("rasteriser")
    depth = renderer.draw(scene, Camera((-1.0, 0.0, 1.0), 0.0, 0.0, 60.0), 64, 64).depth
    renderer.close()
    assert depth[32, 32] == pytest.approx(2.85, abs=1e-3)


def test_category_colours_are_the_same_in_every_process():
    names = ["chair", "table", "trash bin", "sofa", "window"]
    program = (
        "from render_agent.tasks.boxes.annotated_room import category_colour as c;"
        f"print([c(n).tolist() for n in {names}])"
    )
    output = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    colours = [category_colour(name).tolist() for name in names]
    assert json.loads(output) == colours
    assert len({tuple(colour) for colour in colours}) == len(names)


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        ((), "no boxes"),
        ((box("a", (0, 0, 0), EYE[0] + 1), box("b", (900, 0, 0), (1, 1, 1))), "200 m apart"),
    ],
)  # fmt: skip
def test_unusable_annotations_are_rejected(objects, message):
    with pytest.raises(SceneError, match=message):
        build_annotated_room(annotation(*objects))


def write_annotations(folder, *scenes):
    path = folder / "scannet_meta_info_val.json"
    default = {"centroid": [0, 0, 0.5], "axesLengths": [1, 1, 1], "normalizedAxes": EYE.ravel().tolist()}  # fmt: skip
    entry = {"room_size": 9.0, "object_counts": {"box": 1}, "object_bbox": {"box": [default]}}
    path.write_text(json.dumps(dict.fromkeys(scenes, entry)))
    return path


def question(path, scene):
    return SimpleNamespace(id="q", scene=scene, scan=path)


def test_one_annotation_file_provides_several_scenes(tmp_path):
    path = write_annotations(tmp_path, "one", "two")
    cache = SceneCache(load=read_scene)
    first, second = (cache.get(question(path, name)) for name in ("one", "two"))
    assert (first.id, second.id, first.source) == ("one", "two", path)
    assert cache.get(question(path, "one")) is first
    assert cache.loads == 2


def test_missing_annotation_only_fails_its_own_questions(tmp_path):
    path = write_annotations(tmp_path, "one")
    cache = SceneCache(load=read_scene)
    with pytest.raises(SceneError, match="three"):
        cache.get(question(path, "three"))
    cache.get(question(path, "one"))
    path.write_text("{")
    with pytest.raises(SceneError, match="annotations"):
        SceneCache(load=read_scene).get(question(path, "one"))
