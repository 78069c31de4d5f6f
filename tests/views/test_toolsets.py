"""`--tools measure` gives exact measurements, `--tools graph` a scene graph instead of views."""

import json
import math
import re

import jsonschema
import numpy as np
import pytest
from factories.replies import parse_reply, reply_schema
from factories.rooms import BLUE, RED, box, room
from factories.runs import make_questions, play, transcripts

from render_agent.dialogue.chat import View
from render_agent.dialogue.prompt import Prompt
from render_agent.dialogue.reply import MAX_PLACES, Action, Malformed, Place
from render_agent.dialogue.wording import general
from render_agent.engines.scripted import ReplayPolicy, ScriptedEngine
from render_agent.engines.scripted.scripted_engine import make_scripted
from render_agent.errors import SetupError, UsageError
from render_agent.options import RunConfig
from render_agent.render.projection import points_under
from render_agent.render.rasteriser.rasteriser import Rasteriser
from render_agent.render.viewer import Viewer
from render_agent.runs.build import build
from render_agent.runs.read import RunData
from render_agent.scans.boxes import upright_box
from render_agent.scans.camera import Camera
from render_agent.scans.formats.load import load_scene
from render_agent.scans.free_space.free_space import FreeSpace
from render_agent.tasks.ground_truth import Facts, load_facts
from render_agent.tasks.rooms import BUNDLED, load_bundled_rooms
from render_agent.views.scene_graph import scene_graph
from render_agent.visibility.measurement import (
    ScenePoint,
    measure_places,
    objects_at,
    scene_objects,
)
from render_agent_lab.expert.surveyor import MEASURED_TYPES

SIZE = (320, 240)
RED_BOX, BLUE_BOX = ((3.0, 0.5, 0.0), (3.6, 1.1, 0.8)), ((3.0, -1.2, 0.0), (3.4, -0.8, 1.0))
SCENE = room(box(*RED_BOX, RED), box(*BLUE_BOX, BLUE))
FACTS = Facts({}, 27.0, {"sofa": [upright_box(*RED_BOX)], "stool": [upright_box(*BLUE_BOX)]})
HERE = Camera((0.0, 0.0, 1.5))


@pytest.fixture(scope="module")
def viewer():
    viewer = Viewer(Rasteriser(), SIZE, 75.0)
    yield viewer
    viewer.close()


@pytest.fixture(scope="module")
def views(viewer):
    """Return a view of each type from one place, by number."""
    frames = [viewer.draw(kind, SCENE, HERE) for kind in ("ego", "top", "around")]
    return {n: View(n, frame.kind, f"{n}.png", frame.camera) for n, frame in enumerate(frames)}


def measure(places, viewer, views, facts=FACTS):
    return measure_places(places, views, HERE, SCENE, facts, viewer, general()).text


def place_of(point, view, number):
    (u, v), *_ = view.camera.project(np.array([point]), *SIZE)[0]
    return Place(float(u), float(v), view=number)


# Points on the faces towards the camera.
FRONT = {"sofa": (3.0, 0.8, 0.5), "stool": (3.0, -1.0, 0.7)}


def test_pixels_give_position_object_and_distance(viewer, views):
    places = [place_of(point, views[0], 0) for point in FRONT.values()]
    text = measure(places, viewer, views)
    assert re.search(
        r"Place 1: \[3\.0\d?, 0\.\d+, 0\.\d+\], on sofa, .*\[3\.30, 0\.80, 0\.40\]", text
    )
    assert (
        "on stool, whose box has its centre at [3.20, -1.00, 0.50] and measures 0.40 x 0.40 x 1.00 m"
        in text
    )
    metres = float(re.search(r"From 1 to 2: ([\d.]+) m", text)[1])
    assert metres == pytest.approx(math.dist(*FRONT.values()), abs=0.03)
    assert "(1.30 m between the closest points of the two objects)" in text  # y: 0.5 to -0.8
    assert measure(places, viewer, views) == text


def test_map_and_around_views_can_be_measured(viewer, views):
    on_map = place_of((3.3, 0.8, 0.8), views[1], 1)
    text = measure([on_map, Place(3.2, -1.0), Place(3.3, 0.8, 0.4)], viewer, views)
    assert re.search(r"Place 1: \[3\.\d+, 0\.\d+, 0\.80\], on sofa", text)
    assert re.search(r"Place 2: \[3\.20, -1\.00, 1\.00\], on stool", text)
    assert "Place 3: [3.30, 0.80, 0.40], on sofa" in text
    (cell, _), ahead = ((158, 118), None), views[2].camera  # first part: 320x240 minus a gap
    (u, v), *_ = ahead.project(np.array([FRONT["sofa"]]), *cell)[0]
    assert "on sofa" in measure([Place(float(u), float(v), view=2)], viewer, views)
    behind = measure([Place(160 + 4 + 79, 120 + 4 + 59, view=2)], viewer, views)
    assert re.search(r"Place 1: \[-1\.00, -?0\.0\d, 1\.\d+\], on no object that is known", behind)
    assert "lies between two directions" in measure([Place(159, 60, view=2)], viewer, views)


def test_angle_at_first_place_is_in_the_floor_plane(viewer, views):
    origin, sofa, stool = Place(0, 0, 1.0), Place(*FRONT["sofa"]), Place(*FRONT["stool"])
    text = measure([origin, sofa, stool], viewer, views)
    right = math.degrees(math.atan2(0.8, 3.0) + math.atan2(1.0, 3.0))
    assert f"at 1, {right:.0f} degrees to the right of the way to 2" in text
    assert f"at 1, {right:.0f} degrees to the left" in measure([origin, stool, sofa], viewer, views)


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        (Place(5, 5, view=7), "there is no view 7 yet: views 0 to 2 were shown"),
        (Place(320, 5, view=0), "pixel (320, 5) is out of view 0, which has 320x240 pixels"),
        (Place(-1, 5, view=0), "pixel (-1, 5) is out of view 0, which has 320x240 pixels"),
        (Place(1e300, 5, view=0), "is out of view 0"),
        (Place(5.8, 2.8), "[5.80, 2.80]: nothing was scanned there"),
        (Place(80, 80), "[80, 80] is outside of the scan"),
        (Place(1e300, -1e300, 1e300), "[1e+300, -1e+300, 1e+300] is outside of the scan"),
    ],
)
def test_invalid_places_are_explained(viewer, views, place, reason):
    text = measure([place, Place(3.3, 0.8, 0.4)], viewer, views)
    assert "Place 1: " in text
    assert reason in text
    assert text.endswith("Distances and angles are told from place 1, which was not found.")


def test_floor_under_a_box_and_wall_behind_it_are_on_no_object(viewer, views):
    table = upright_box((1.0, 1.5, 0.0), (3.0, 2.5, 0.9))  # contains only floor and wall
    facts = Facts({}, 27.0, {"table": [table], "sofa": [upright_box(*RED_BOX)]})
    floor, wall = (1.6, 1.7, 0.0), (2.0, 2.5, 0.6)
    ahead = Camera((2.0, 0.0, 1.5), 90.0, -20.0)
    views_ahead = dict(views) | {0: View(0, "ego", "0.png", ahead)}
    places = [
        place_of(floor, views_ahead[0], 0),
        place_of(wall, views_ahead[0], 0),
        Place(*floor),
        Place(*wall),
    ]
    text = measure_places(places, views_ahead, ahead, SCENE, facts, viewer, general()).text
    assert text.count("on no object that is known") == 4
    assert "between the closest points" not in text
    inside = measure_places(
        [Place(2.0, 2.0, 0.5)], views_ahead, ahead, SCENE, facts, viewer, general()
    )
    assert "on table" in inside.text


@pytest.mark.skipif(not BUNDLED.is_dir(), reason="the bundled rooms are missing")
@pytest.mark.parametrize("name", ["room00", "room05"])
def test_visible_floor_of_bundled_rooms_is_on_no_object(name):
    question = next(candidate for candidate in load_bundled_rooms() if candidate.scene == name)
    scene = load_scene(question.scan)
    objects = scene_objects(load_facts([question])[name], scene)
    renderer, start = Rasteriser(), FreeSpace.of(scene).start_position()
    num_in_boxes, num_on_objects, num_elsewhere = 0, 0, 0
    for yaw in range(0, 360, 90):
        camera = Camera(tuple(start), yaw, -25.0)
        frame = renderer.draw(scene, camera, 120, 90)
        v, u = np.nonzero(np.isfinite(frame.depth))
        points = points_under(camera, u, v, frame.depth[v, u].astype(float), (120, 90))
        primitives = frame.primitive[v, u]
        points_in_view = [
            ScenePoint(point, camera.position, int(primitive))
            for point, primitive in zip(points, primitives, strict=True)
        ]
        is_on_object = np.array(
            [owner is not None for owner in objects_at(points_in_view, objects, scene)]
        )
        floor = (np.abs(scene.points[scene.faces[primitives], 2] - scene.floor) < 1e-3).all(axis=1)
        assert not is_on_object[floor].any()
        floor_points = [ScenePoint(point, camera.position) for point in points[floor][::25]]
        assert not any(objects_at(floor_points, objects, scene))
        in_box = [
            (np.abs(candidate.box.local(points[floor])) <= candidate.box.size / 2 + 0.01).all(
                axis=1
            )
            for candidate in objects
        ]
        num_in_boxes += int(np.any(in_box, axis=0).sum())
        num_on_objects += int(is_on_object.sum())
        num_elsewhere += int((~is_on_object).sum())
    assert num_in_boxes > 500  # the rule matters here
    assert 0.2 < num_on_objects / (num_on_objects + num_elsewhere) < 0.6


def test_without_boxes_only_distances_are_given(viewer, views):
    places = [place_of(point, views[0], 0) for point in FRONT.values()]
    text = measure(places, viewer, views, facts=None)
    assert re.fullmatch(
        r"Place 1: \[[-\d., ]+\]\. Place 2: \[[-\d., ]+\]\. From 1 to 2: [\d.]+ m\.", text
    )


PIXEL = {"view": 3, "x": 10, "y": "20"}


@pytest.mark.parametrize(
    ("value", "places"),
    [
        ([PIXEL, [1, 2]], (Place(10, 20, view=3), Place(1, 2))),
        (PIXEL, (Place(10, 20, view=3),)),
        ([1.5, "2 m"], (Place(1.5, 2),)),
        ([{"X": 1, "y": 2, "z": "30 cm"}], (Place(1, 2, 0.3),)),
        ([{"view": "view 2", "x": 1, "y": 2}], (Place(1, 2, view=2),)),
        (None, ()),
        ([], ()),
        ([[1, 2]] * MAX_PLACES, (Place(1, 2),) * MAX_PLACES),
        ([[1, 2]] * (MAX_PLACES + 1), None),
        ([1, 2, 3, 4], None),
        ([[1, "far"]], None),
        ([{"view": "ego", "x": 1, "y": 2}], None),
        ([{"view": 1, "x": 1}], None),
        ([[1, 2], 3], None),
        ("everything", None),
        (True, None),
    ],
)  # fmt: skip
def test_parsing_of_measure(value, places):
    reply = json.dumps({"measure": value, "forward_meters": 1})
    action = parse_reply(reply, "text", measures=True)
    if places is None:
        assert isinstance(action, Malformed)
        assert "measure must be a list of 1 to 6 places" in action.reason
    else:
        assert action == Action(forward=1, measure=places)
    without_tool = parse_reply(reply, "text")
    assert (without_tool.forward, without_tool.measure) == (1, ())
    assert "measure" in "".join(without_tool.notes) or not value  # the key is unknown


def test_measurement_alone_is_a_valid_action():
    assert parse_reply('{"measure": [1, 2]}', "text", measures=True).requests_only_measurements
    assert isinstance(parse_reply('{"measure": [1, 2]}', "text"), Malformed)
    malformed = parse_reply("{}", "text", measures=True)
    assert ", view, measure, answer" in malformed.reason


def test_prompt_mentions_measure_only_if_enabled():
    plain, measuring = Prompt(9, 75.0), Prompt(9, 75.0, image_size=(640, 480))
    assert "measure" not in plain.instructions
    assert "640x480" in measuring.instructions
    for line in measuring.instructions.splitlines():  # two additional lines, all others unchanged
        assert (
            line in plain.instructions.splitlines()
            or "measure" in line
            or "metres" in line
            or "view" in line
        )
    schema = reply_schema(plain.kinds, measures=True)
    reply = {
        "reasoning": "",
        "answer": None,
        "done": False,
        "measure": [PIXEL | {"y": 20}, [1.0, 2.0]],
    }
    jsonschema.validate(reply, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(reply, reply_schema(plain.kinds))


def test_run_with_measurements(tmp_path):
    questions = make_questions(tmp_path, 1)
    replies = [
        {"measure": [{"view": 1, "x": 48, "y": 36}, [2, 2]]},
        {"measure": [[1, 1], [3, 1]], "rotation_angle_degrees": 30},
        {"measure": [{"view": 9, "x": 1, "y": 1}], "answer": 3, "done": True},
    ]
    engine = ScriptedEngine(ReplayPolicy({"0": list(map(json.dumps, replies))}))
    path, results = play(tmp_path, questions, engine, tools="measure")
    first, second, last = transcripts(path)["0"]
    assert "Place 1: [" in first["happened"]
    assert "From 1 to 2: " in first["happened"]
    assert second["views"] == []
    assert first["happened"] in second["messages"][0]["content"][0]["text"]
    assert len(last["views"]) == 1
    assert "From 1 to 2: 2.00 m" in second["happened"]
    assert last["happened"] == "Done."
    assert any("--tools measure" in note for note in results["notes"])
    (state,) = RunData(path).states
    assert state.turns[0].action.measure == (Place(48, 36, view=1), Place(2, 2))


def test_scene_graph_replaces_views(tmp_path):
    text = scene_graph(FACTS, general())
    assert text.splitlines()[0] == "Scene graph. Floor area: 27.0 square metres. Objects:"
    assert "- sofa 1: centre [3.30, 0.80, 0.40], size 0.60 x 0.60 x 0.80 high, yaw 0" in text
    options = {"tools": "graph", "scene": ("room05",), "limit": 2}
    engine = ScriptedEngine(ReplayPolicy({"*": ["?"]}))
    path, results = play(tmp_path, "rooms", engine, **options)
    for turns in transcripts(path).values():
        assert all(turn["views"] == [] for turn in turns)
        _, user = turns[0]["messages"]
        assert user["content"][0]["text"].startswith("Scene graph. Floor area: ")
    assert results["totals"]["renders"] == 0


def test_invalid_tool_combinations_are_refused(tmp_path):
    for options in ({"views": "tour"}, {"image_stress": "mirrored"}):
        with pytest.raises(UsageError, match="--tools graph needs"):
            build(RunConfig(batch=True, tools="graph", **options))
    with pytest.raises(SetupError, match=r"1 of 1 scenes.*--annotations"):
        play(tmp_path, make_questions(tmp_path), ScriptedEngine(ReplayPolicy({})), tools="graph")


@pytest.mark.skipif(not BUNDLED.is_dir(), reason="the bundled rooms are missing")
def test_measuring_policy_matches_oracle(tmp_path):
    scenes = ("room05",)
    questions = [
        q for q in load_bundled_rooms() if q.scene in scenes and q.type.startswith(MEASURED_TYPES)
    ]
    options = {"scene": scenes, "image_size": (160, 120), "tools": "measure"}
    options["id"] = tuple({q.type: q.id for q in questions}.values())
    config = RunConfig(batch=True, benchmark="rooms", engine="scripted", **options)
    _, results = play(
        tmp_path, "rooms", make_scripted("surveyor", questions, 0, 64, config), **options
    )
    assert len({row["type"] for row in results["questions"]}) >= 4
    assert results["micro"] == 100
