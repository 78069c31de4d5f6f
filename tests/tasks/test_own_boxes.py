"""Boxes of a user's scan, in every format, and what does not fit the scan."""

import json
import re
import shutil
from itertools import permutations

import numpy as np
import pytest
import trimesh
from factories.scans import block, mesh_ply, room

from render_agent.dialogue.question import Question
from render_agent.errors import QuestionsError, UsageError
from render_agent.options import RunConfig
from render_agent.scans.box_files.box_file import box_of_corners
from render_agent.scans.boxes import OrientedBox, rotation
from render_agent.tasks.ground_truth import check_own_boxes, facts_files, load_facts
from render_agent.tasks.question_types import true_answer
from render_agent.tasks.rooms import BUNDLED
from render_agent.tasks.scene_reader import read_scene

TABLE = (1.0, 1.0, 0.0), (2.0, 2.5, 0.75)
POINTS, FACES = room(block(*TABLE))
CENTRE, SIZE = (1.5, 1.75, 0.375), (1.0, 1.5, 0.75)
# Rotates z up to y up: (x, y, z) -> (x, z, -y).
TO_Y_UP = np.array([[1, 0, 0], [0, 0, 1], [0, -1, 0]], float)


def question(scan, scene="room"):
    return Question("1", "b", "d", scene, "object_counting", "How many?", "number", scan=scan)


def corners_of(facts, label="table"):
    (box,) = facts.boxes[label]
    return {tuple(corner) for corner in np.round(box.corners, 6)}


def table(**changes):
    return [{"label": "table", "center": CENTRE, "size": SIZE} | changes]


EXPECTED = {tuple(c) for c in np.round(OrientedBox(np.array(CENTRE), np.array(SIZE), np.eye(3)).corners, 6)}  # fmt: skip


@pytest.fixture
def scan(tmp_path):
    path = tmp_path / "room.ply"
    path.write_bytes(mesh_ply(POINTS, FACES))
    return path


def write(scan, data, name="room.boxes.json"):
    path = scan.with_name(name)
    path.write_text(json.dumps(data))
    return path


def load(scan, **options):
    return load_facts([question(scan)], RunConfig(**options))["room"]


OBB = {
    "centroid": CENTRE,
    "axesLengths": [1.5, 1.0, 0.75],
    "normalizedAxes": [0, 1, 0, -1, 0, 0, 0, 0, 1],
}
CORNERS = OrientedBox(np.array(CENTRE), np.array(SIZE), np.eye(3)).corners[[3, 7, 0, 1, 6, 2, 5, 4]]


def element(category, size, centre, turn=0.0, **fields):
    """Return an element of RoomPlan's CapturedRoom; size: width, height, depth."""
    matrix = np.eye(4)
    matrix[:3, :3] = TO_Y_UP @ rotation(turn) @ TO_Y_UP.T
    matrix[:3, 3] = TO_Y_UP @ centre
    return {
        "attributes": {},
        "category": category,
        "confidence": {"high": {}},
        "dimensions": size,
        "identifier": "8B4E1E5A-0000-4000-8000-000000000000",
        "parentIdentifier": None,
        "story": 0,
        "transform": matrix.T.ravel().tolist(),
        **fields,
    }


def surface(category, size, centre, corners=()):
    fields = {"polygonCorners": corners, "completedEdges": [], "curve": None}
    return element({category: {}}, size, centre, **fields)


def floor(corners, centre):
    """Return a floor: its corners are in its own plane, which is horizontal."""
    matrix = np.eye(4)
    matrix[:3, :3] = TO_Y_UP  # its third axis points up
    matrix[:3, 3] = TO_Y_UP @ centre
    polygon = [[x - centre[0], y - centre[1], 0] for x, y in corners]
    return surface("floor", [6, 4, 0], centre, polygon) | {"transform": matrix.T.ravel().tolist()}


def room_plan(**fields):
    """Return the table as RoomPlan's CapturedRoom, with a washer dryer, a wall and a door."""
    table = element({"table": {}}, [1.5, 0.75, 1.0], CENTRE, 90)
    return {
        "coreModel": "YnBsaXN0",
        "walls": [surface("wall", [6, 2.7, 0], (3, 0, 1.35))],
        "objects": [table, {**table, "category": {"washerDryer": {}}}],
        "doors": [element({"door": {"isOpen": True}}, [0.9, 2, 0], (3, 0, 1))],
        "windows": [],
        "openings": [],
        "floors": [],
        "sections": [{"center": [0, 0, 0], "label": "kitchen", "story": 0}],
        "story": 0,
        "version": 2,
        "referenceOriginTransform": np.eye(4).ravel().tolist(),
        **fields,
    }


FORMATS = {
    "yaw": [{"label": "table", "center": CENTRE, "size": [1.5, 1.0, 0.75], "yaw": 90}],
    "corners": [{"label": "table", "corners": CORNERS.tolist()}],
    "interior_gs": [
        {"ins_id": "3", "label": "table", "bounding_box": [dict(zip("xyz", c, strict=True)) for c in CORNERS.tolist()]},
        {"ins_id": "4", "label": "wall"},
    ],
    "scannetpp": {"segGroups": [{"id": 1, "label": "table", "segments": [1], "obb": OBB}]},
    "arkitscenes": {"data": [{"label": "table", "segments": {"obbAligned": OBB, "obb": OBB}}]},
    "room_plan": room_plan(),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_box(scan, name):
    path = write(scan, FORMATS[name])
    facts = load(scan)
    assert corners_of(facts) == EXPECTED
    assert facts.counts["table"] == 1
    assert facts_files([question(scan)]) == [path]


NO_BOX = [{"ins_id": "5", "label": "rug", "bounding_box": [{"x": 1, "y": 1, "z": 0}] * 8}]
STRUCTURE = {"id": 2, "label": "wall", "segments": [2], "obb": OBB}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (FORMATS["room_plan"], "1 walls, 1 sections"),
        (room_plan(referenceOriginTransform=[2] * 16), "referenceOriginTransform"),
        (table(colour="red", id=7), "colour, id"),
        (FORMATS["interior_gs"] + NO_BOX, "2 instances"),
        ({"segGroups": [*FORMATS["scannetpp"]["segGroups"], STRUCTURE]}, "1 wall"),
    ],
)
def test_what_is_not_used_is_reported_at_the_start(scan, caplog, data, words):
    path = write(scan, data)
    check_own_boxes([question(scan)], RunConfig())
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert str(path) in record.message
    assert words in record.message
    assert "wall" not in load(scan).counts


def test_room_plan_has_doors_and_words_for_categories(scan):
    write(scan, FORMATS["room_plan"])
    facts = load(scan)
    assert facts.counts == {"table": 1, "washer dryer": 1, "door": 1}
    low, high = facts.boxes["door"][0].bounds
    np.testing.assert_allclose((low + high) / 2, (3, 0, 1), atol=1e-9)
    np.testing.assert_allclose(high - low, (0.9, 0.02, 2), atol=1e-9)


def test_room_plan_is_found_under_the_name_of_the_scan(scan):
    path = write(scan, FORMATS["room_plan"], "room.json")
    assert load(scan).counts["table"] == 1
    assert facts_files([question(scan)]) == [path]
    assert "room.json" not in " ".join(read_scene(scan, "room").notes)
    write(scan, table(label="desk"))
    assert load(scan).counts == {"desk": 1}
    path.write_text('{"objects": [')
    assert "room.json" in " ".join(read_scene(scan, "room").notes)
    assert facts_files([question(scan)]) == [scan.with_name("room.boxes.json")]


def test_room_plan_gives_the_area_of_the_floor(scan, caplog):
    text = "What is the size of this room (in square meters)?"
    asked = Question("1", "b", "d", "room", "room_size_estimation", text, "number", scan=scan)
    corners = [(0, 0), (6, 0), (6, 2), (4, 2), (4, 4), (0, 4)]
    plan = room_plan(floors=[floor(corners, (3, 2, 0))])
    write(scan, plan)
    assert true_answer(asked, load(scan)) == "20.0"
    plan["floors"][0]["polygonCorners"] = []  # as for a rectangle
    write(scan, plan)
    assert true_answer(asked, load(scan)) == "24.0"
    assert not caplog.records
    write(scan, room_plan(floors=[floor([(0, 0), (1, 0), (1, 1), (0, 1)], (0.5, 0.5, 0))]))
    load(scan)
    assert "(1, 1) m" in caplog.text


def test_categories_may_be_plain_text(scan):
    plan = room_plan()
    plan["objects"][1]["category"] = "coffeeTable"
    write(scan, plan)
    assert load(scan).counts == {"table": 1, "coffee table": 1, "door": 1}


def test_boxes_are_in_the_unit_and_axes_of_the_scan(tmp_path):
    scan = tmp_path / "room.obj"
    trimesh.Trimesh(100 * POINTS @ TO_Y_UP.T, FACES, process=False).export(scan)
    entry = {"label": "table", "center": (100 * TO_Y_UP @ CENTRE).tolist(), "size": [150, 75, 100], "yaw": 90}  # fmt: skip
    write(scan, [entry])
    assert corners_of(load(scan, up="y", unit="cm")) == EXPECTED


def test_a_turned_box_with_corners_in_any_order():
    box = OrientedBox(np.array([1.0, 2, 3]), np.array([0.4, 0.5, 0.6]), rotation(33).T)
    wanted = {tuple(c) for c in np.round(box.corners, 6)}
    for order in list(permutations(range(8)))[::4001]:
        found = box_of_corners(box.corners[list(order)])
        assert {tuple(c) for c in np.round(found.corners, 6)} == wanted
        assert np.linalg.det(found.axes) == pytest.approx(1)
    bent = box.corners.copy()
    bent[5] += 0.1
    with pytest.raises(ValueError, match="eight corners"):
        box_of_corners(bent)


def test_scannet_boxes_come_from_the_vertices_in_the_aligned_frame(tmp_path):
    scan = tmp_path / "scene0000_00_vh_clean_2.ply"
    scan.write_bytes(mesh_ply(POINTS @ rotation(30).T, FACES))
    matrix = np.eye(4)
    matrix[:3, :3] = rotation(-30)
    scan.with_name("scene0000_00.txt").write_text(
        "axisAlignment = " + " ".join(f"{v:.9f}" for v in matrix.ravel()) + "\n"
    )
    is_table = ((np.array(TABLE[0]) <= POINTS) & (np.array(TABLE[1]) >= POINTS)).all(1)
    segments = write(scan, {"segIndices": [7 if t else 3 for t in is_table]}, "scene0000_00_vh_clean_2.0.010000.segs.json")  # fmt: skip
    groups = {"segGroups": [{"id": 0, "label": "table", "segments": [7]}]}
    path = write(scan, groups, "scene0000_00.aggregation.json")
    (box,) = load(scan, boxes=str(path)).boxes["table"]
    low, high = box.bounds
    np.testing.assert_allclose([low, high], TABLE, atol=1e-5)
    assert facts_files([question(scan)], RunConfig(boxes=str(path))) == sorted([path, segments])
    segments.write_text('{"segIndices": [1]}')
    path.touch()
    path.write_text(json.dumps(groups) + " ")
    with pytest.raises(QuestionsError, match=r"segs\.json"):
        load(scan, boxes=str(path))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (table(size=[1, 0, 1]), [r"table", r"\(1, 0, 1\)"]),
        (table(size=[-1, 1, 1]), [r"table", r"\(-1, 1, 1\)"]),
        (table(center=[150, 175, 37.5], size=[100, 150, 75]), ["--boxes-unit cm", "150 m", "6 m"]),
        (table(center=[9, 1, 1]), ["1 of 1 boxes", r"table at \(9, 1, 1\)"]),
        (table(center=[5.5, 0.5, -3.5], size=[0.5, 0.5, 0.5]), ["--boxes-up y"]),
        (table(number=1) + table(number=1), ["number 1"]),
        (table(corners=CORNERS.tolist()), ["center and size, or corners"]),
        ([], ["no boxes"]),
        ({"rooms": 3}, ["boxes.md"]),
        ({"walls": [], "objects": [{"name": "chair"}]}, ["dimensions"]),
        ({"data": [], "skipped": True}, ["no boxes"]),
        (table(center=[float("nan"), 1, 1]), ["NaN"]),
        ([{"center": CENTRE, "size": SIZE}], ["label"]),
        (table(center=[90, 1, 1]), ["1 of 1 boxes"]),
        (table() + table(center=[90, 1, 1]), ["1 of 2 boxes"]),
        (table(label="a\u202eb"), ["invisible"]),
        (table(label="  "), ["label"]),
        (table(center=[1, 2]), ["center"]),
    ],
)
def test_what_does_not_fit_is_refused_with_the_numbers(scan, data, words):
    path = write(scan, data)
    with pytest.raises(QuestionsError) as error:
        load(scan)
    assert str(path) in str(error.value)
    for word in words:
        assert re.search(word, str(error.value)), error.value


def test_labels_are_those_of_questions_in_any_case(scan):
    spellings = ["Coffee  Table", "coffee table", " COFFEE TABLE "]
    write(scan, [entry for label in spellings for entry in table(label=label)])
    facts = load(scan)
    assert (facts.counts, [*facts.boxes]) == ({"coffee table": 3}, ["coffee table"])


@pytest.mark.parametrize(("content", "word"), [("", "empty"), ('[{"label": ', "not valid JSON")])
def test_a_damaged_file_is_refused(scan, content, word):
    scan.with_name("room.boxes.json").write_text(content)
    with pytest.raises(QuestionsError, match=word):
        load(scan)


def test_the_advised_option_makes_the_boxes_fit(scan):
    write(scan, table(center=[150, 175, 37.5], size=[100, 150, 75]))
    assert corners_of(load(scan, boxes_unit="cm")) == EXPECTED
    write(scan, table(center=(TO_Y_UP @ CENTRE).tolist(), size=[1.0, 0.75, 1.5], label="desk"))
    assert corners_of(load(scan, boxes_up="y"), "desk") == EXPECTED


def test_boxes_with_another_axis_than_the_scan_name_the_option_for_the_scan(scan):
    data = scan.read_bytes()
    scan.write_bytes(data.replace(b"element", b"comment up axis: -y\nelement", 1))
    write(scan, FORMATS["interior_gs"])
    with pytest.raises(QuestionsError, match=r"--up z"):
        load(scan)
    assert corners_of(load(scan, up="z")) == EXPECTED


def test_boxes_option_takes_precedence_and_names_one_scan(scan, tmp_path):
    write(scan, table(label="desk"))
    path = write(scan, table(), "other.json")
    assert load(scan, boxes=str(path)).counts == {"table": 1}
    assert facts_files([question(scan)], RunConfig(boxes=str(path))) == [path]
    second = tmp_path / "second.ply"
    second.write_bytes(scan.read_bytes())
    with pytest.raises(UsageError, match=r"second\.ply"):
        load_facts([question(scan), question(second, "second")], RunConfig(boxes=str(path)))


def test_boxes_of_the_user_precede_those_of_make_rooms(tmp_path):
    for suffix in (".ply", ".json"):
        shutil.copy((BUNDLED / "room00.ply").with_suffix(suffix), tmp_path)
    scan = tmp_path / "room00.ply"
    assert "table" in load_facts([question(scan, "room00")])["room00"].counts
    write(scan, table(label="desk", center=[1.5, 1.5, 0.4], size=[1, 1, 0.8]), "room00.boxes.json")
    assert load_facts([question(scan, "room00")])["room00"].counts == {"desk": 1}


def test_area_of_the_floor_is_unknown(scan):
    write(scan, table())
    text = "What is the size of this room (in square meters)?"
    asked = Question("1", "b", "d", "room", "room_size_estimation", text, "number", scan=scan)
    assert true_answer(asked, load(scan)) is None
