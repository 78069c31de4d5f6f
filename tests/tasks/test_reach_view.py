"""Questions of the type reach_view: the dialogue, the measures, and their independent computation."""

import json
import math
from copy import copy
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from factories.views import (
    ROWS,
    SIZE,
    angle_between,
    camera_at,
    grid_distance,
    shared_surface,
    view_questions,
)

import render_agent
from render_agent.dialogue.chat import image_files
from render_agent.dialogue.question import parse_pose
from render_agent.errors import QuestionsError, UsageError
from render_agent.runs import build as build_module
from render_agent.runs.preflight import count_images
from render_agent.runs.read import RunData
from render_agent.scans.formats.load import load_scene
from render_agent.scans.free_space.free_space import FreeSpace
from render_agent.scans.free_space.shortest_path import ShortestPaths
from render_agent.score.dialogues.reached_views import compare_views
from render_agent.score.questions import score_answer
from render_agent.tasks.question_types import find_type, task_of
from render_agent.tasks.rooms import BUNDLED
from render_agent.tasks.rows import question_from_row

DONE = {"answer": None, "done": True}
FIRST_MOVES = {
    "rotation": {"rotation_angle_degrees": 85, "pitch_degrees": -10},
    "translation": {"forward_meters": 1.4},
    "near": {"rotation_angle_degrees": 45, "forward_meters": 0.5},
    "far": {"forward_meters": 1},
}


def play(folder, replies, rows=ROWS, **options):
    """Run the targets with the replies that a function of the request returns."""
    settings = {"image_size": SIZE, "max_turns": 4, "view_types": ("ego",), **options}
    run = render_agent.run(
        benchmark=view_questions(folder, rows), engine=replies, output=folder / "runs", **settings
    )
    return RunData(run.path)


def move_once(request):
    return json.dumps(FIRST_MOVES[request.question_id] if request.turn == 0 else DONE)


@pytest.fixture(scope="module")
def moved(tmp_path_factory):
    """Targets after one move each, and the requests."""
    requests = []

    def reply(request):
        requests.append(request)
        return move_once(request)

    return play(tmp_path_factory.mktemp("moved"), reply), requests


def test_first_turn_shows_the_target_as_such(moved):
    _, requests = moved
    for request in [request for request in requests if request.turn == 0]:
        target, ego = image_files(request.messages)
        texts = [piece.get("text", "") for piece in request.messages[1]["content"]]
        assert target.endswith("0_target.png")
        assert ego.endswith("0_ego.png")
        assert "target" in texts[1]
        assert [(view.number, view.kind) for view in request.views] == [(0, "target"), (1, "ego")]
    assert all(image_files(request.messages)[0].endswith("0_target.png") for request in requests)


def test_history_keeps_the_target(tmp_path):
    files = []

    def reply(request):
        files.append(image_files(request.messages))
        return json.dumps({"rotation_angle_degrees": 10})

    play(tmp_path, reply, {"near": ROWS["near"]}, history="1", max_turns=3)
    names = [[file.rpartition("/")[2] for file in images] for images in files]
    assert names == [["0_target.png", f"{turn}_ego.png"] for turn in range(3)]


def test_engines_are_told_the_number_of_images(monkeypatch, tmp_path):
    workloads = []
    start = build_module.start_engine
    monkeypatch.setattr(
        build_module,
        "start_engine",
        lambda config, questions, workload: (
            workloads.append(workload) or start(config, questions, workload)
        ),
    )
    run = play(tmp_path, move_once, {"near": ROWS["near"]}, max_turns=3)
    config, questions = run.config, run.questions
    config = replace(config, model="random")
    build_module.make_engine(config, questions)
    build_module.make_engine(config, [replace(questions[0], type="reach_view_described")])
    assert [workload.max_images for workload in workloads[-2:]] == [4, 3]
    images = {file for state in run.states for turn in state.turns for file in turn.image_files}
    assert len(images) <= count_images(build_module.build(config), questions)


def test_target_cannot_be_measured(tmp_path):
    told = []

    def measure(request):
        told.append(json.dumps(request.messages[-1]))
        place = [{"view": view, "x": 1, "y": 1} for view in (0, 9)]
        return json.dumps({"measure": place, "answer": None} if request.turn == 0 else DONE)

    run = play(tmp_path, measure, {"near": ROWS["near"]}, tools="measure")
    assert run.states[0].status == "answered"
    assert "Place 1: view 0 is the target image, which cannot be measured." in told[1]
    assert "Place 2: there is no view 9 yet: views 0 to 1 were shown." in told[1]


def test_pose_of_the_target_stays_hidden(moved):
    run, requests = moved
    for request in requests:
        assert request.views[0].camera is None
        x, y, z, yaw, _ = ROWS[request.question_id][2]
        told = json.dumps([*request.messages, request.schema])
        assert f"[{x:.2f}, {y:.2f}, {z:.2f}], yaw {yaw:.0f}" not in told
        assert run.states[0].question.ground_truth not in told


def test_only_null_is_an_answer(moved):
    _, requests = moved
    assert {json.dumps(request.schema["properties"]["answer"]) for request in requests} == {
        '{"type": "null"}'
    }


def test_tools_accept_only_null(tmp_path):
    tools = []

    def reply(request):
        tools.append({tool["function"]["name"]: tool["function"] for tool in request.tools})
        return '<tool_call>\n{"name": "answer", "arguments": {"answer": null, "done": true}}\n</tool_call>'

    run = play(tmp_path, reply, reply_protocol="tools")
    assert all(state.status == "answered" for state in run.states)
    answer = tools[0]["answer"]["parameters"]["properties"]["answer"]
    assert answer["type"] == "null"
    assert {"look", "move"} < tools[0].keys()


def test_an_answer_in_words_is_not_read(tmp_path):
    run = play(tmp_path, lambda request: '{"answer": "I am there", "done": true}', max_turns=2)
    assert [state.status for state in run.states] == ["exhausted"] * len(ROWS)
    assert all(state.repairs == 2 for state in run.states)
    assert all(state.answer is not None for state in run.states)  # the pose still counts


def test_done_ends_in_the_first_turn(tmp_path):
    run = play(tmp_path, lambda request: json.dumps(DONE))
    for state in run.states:
        assert (state.status, len(state.turns)) == ("answered", 1)
        start, end = state.target_errors
        assert start.pose == end.pose
        assert (start.position, start.path, start.overlap) == (end.position, end.path, end.overlap)
    assert run.results["types"]["reach_view_rotation"]["score"] == 0.0


def test_pose_errors_equal_independent_ones(moved):
    for state in moved[0].states:
        target = ROWS[state.id][2]
        for turn, error in enumerate(state.target_errors):
            camera = state.turns[0].camera_before if turn == 0 else state.turns[turn - 1].camera
            assert error.pose == pytest.approx(
                (*camera.position, camera.yaw, camera.pitch), abs=1e-4
            )
            offset = np.subtract(camera.position, target[:3])
            assert error.position == pytest.approx(float(np.sqrt(offset @ offset)), abs=2e-4)
            assert error.heading == pytest.approx(angle_between(camera.yaw, target[3]), abs=1e-3)
            assert error.pitch == pytest.approx(abs(camera.pitch - target[4]), abs=1e-3)


def test_overlap_equals_independent_one(moved):
    run = moved[0]
    viewer = render_agent.render.viewer.Viewer(
        render_agent.render.make_renderer.make_renderer("rasteriser"), SIZE, 75.0
    )
    seen = []
    for state in run.states:
        scene = load_scene(state.question.scan)
        cameras = [state.turns[-1].camera, camera_at(ROWS[state.id][2])]
        depths = [viewer.renderer.draw(scene, camera, 128, 96).depth for camera in cameras]
        expected = shared_surface(depths, cameras)
        seen.append(state.target_errors[-1].overlap)
        assert seen[-1] == pytest.approx(expected, abs=0.03)
    assert max(seen) > 0.5
    assert min(seen) < 0.1


def test_score_is_success_and_measures_are_means(moved):
    run = moved[0]
    rows = {row["question_id"]: row for row in run.results["questions"]}
    assert [rows[tier]["score"] for tier in ROWS] == [1.0, 1.0, 0.0, 0.0]
    views = run.results["views"]
    assert views["success"]["mean"] == 50.0
    errors = [state.target_errors[-1] for state in run.states]
    assert views["position_metres"]["mean"] == pytest.approx(np.mean([e.position for e in errors]))
    assert views["spl"]["n"] == 3  # the target of `rotation` is at the start
    # The straight move of 1.4 m ends 0.1 m before the target, so no more than the shortest path was taken.
    assert rows["translation"]["spl"] == 1.0
    assert run.results["official_raw"] == 50.0  # the mean over the only task
    assert [point["turn"] for point in views["by_turn"]] == [0, 1, 2]
    assert views["by_turn"][-1]["overlap"] == views["overlap"]


def test_reached_view_is_kept(moved):
    run = moved[0]
    for state in run.states:
        view = state.target_errors[-1].view
        assert view.camera == state.turns[-1].camera
        assert (run.path / view.file).is_file()
        assert view.file in state.turns[-1].sha256


def test_last_turn_counts_without_done(tmp_path):
    run = play(tmp_path, lambda request: json.dumps(FIRST_MOVES[request.question_id]), max_turns=1)
    assert [row["score"] for row in run.results["questions"]] == [1.0, 1.0, 0.0, 0.0]
    assert {state.status for state in run.states} == {"exhausted"}
    assert all(turn.restated is None for state in run.states for turn in state.turns)


@pytest.mark.parametrize("name", ["room03-far-0", "room06-far-0", "room03-near-0"])
def test_shortest_paths_equal_those_on_a_grid(name):
    lines = (BUNDLED / "views.jsonl").read_text().splitlines()
    (row,) = (row for row in map(json.loads, lines) if row["id"] == name)
    space = FreeSpace.of(load_scene(BUNDLED / f"{row['scene_name']}.ply"))
    start, goal = row["start"][:3], row["ground_truth"][:3]
    path = ShortestPaths(space, goal).waypoints(start)
    length = float(np.linalg.norm(np.diff(path, axis=0), axis=1).sum())
    expected = grid_distance(space, start, goal)
    assert (len(path) > 2) == ("far" in name)
    assert length >= math.dist(start, goal) - 1e-6
    # A grid with 26 directions is up to 13 % too long.
    assert 0.88 * expected - 0.2 <= length <= expected + 0.2
    for a, b in pairwise(path):
        level = np.array([b[0], b[1], a[2]])
        line = np.concatenate([np.linspace(a, level, 200), np.linspace(level, b, 200)])
        assert space.tree.query(line)[0].min() > 0.1


def test_only_questions_that_both_runs_scored_are_compared(moved):
    states = moved[0].states
    failed = copy(states[0])
    failed.fail("the server is lost")
    assert compare_views(states, states)["success"]["n"] == len(states)
    assert compare_views(states, [failed, *states[1:]])["success"]["n"] == len(states) - 1


def test_nothing_leads_into_a_closed_box():
    space = FreeSpace.of(load_scene(BUNDLED / "room00.ply"))
    assert ShortestPaths(space, (2.4, 2.3, 30.0)).length((2.4, 2.3, 1.6)) is None


def test_thresholds_of_success():
    row = {"id": 1, "scene_name": "a", "question_type": "reach_view_near", "question": "Go."}
    question = question_from_row({**row, "ground_truth": [1, 2, 1.6, 179, 0]}, "views", None)
    assert question.ground_truth == "1 2 1.6 179 0"
    answers = {
        "1 2 1.6 179 0": (1.0, 1.0),
        "1.24 2 1.6 -167 0": (1.0, 1.0),
        "1.26 2 1.6 179 0": (1.0, 0.0),
        "1 2 1.6 179 16": (1.0, 0.0),
        "1.49 2 1.6 -151.1 -29": (1.0, 0.0),
        "1.3 2.3 2 179 0": (0.0, 0.0),
        "1 2 1.6 -150 0": (0.0, 0.0),
        "1 2 1.6 179 31": (0.0, 0.0),
        "here": (0.0, 0.0),
    }
    strict = question_from_row(
        {**row, "ground_truth": "1 2 1.6 179 0", "metric": "view-success-strict"}, "views", None
    )
    for answer, scores in answers.items():
        assert (score_answer(question, answer), score_answer(strict, answer)) == scores, answer


@pytest.mark.parametrize("truth", ["here", [1, 2, 3], [1, 2, 3, 4, "x"], [1, 2, 3, 4, math.inf]])
def test_a_target_must_be_a_pose(truth):
    row = {"id": 1, "scene_name": "a", "question_type": "reach_view_far", "question": "Go."}
    with pytest.raises(QuestionsError, match="pose"):
        question_from_row({**row, "ground_truth": truth}, "views", None)


@pytest.mark.parametrize(
    "options",
    [{"views": "none"}, {"views": "four"}, {"tools": "graph"}, {"image_stress": "shuffled"}],
)
def test_the_model_must_move_in_the_scan_of_the_target(tmp_path, options):
    settings = {"view_types": ("ego", "top")} | options
    with pytest.raises(UsageError, match="reach_view"):
        play(tmp_path, move_once, **settings)


def test_mirrored_rooms_are_measured_in_the_frame_of_the_file(tmp_path):
    run = play(
        tmp_path,
        lambda request: (
            json.dumps({"rotation_angle_degrees": -85, "pitch_degrees": -10})
            if request.turn == 0
            else json.dumps(DONE)
        ),
        {"rotation": ROWS["rotation"]},
        image_stress="mirrored",
    )
    (state,) = run.states
    assert state.target_errors[0].pose == pytest.approx((2.4, 2.3, 1.6, 0.0, 0.0), abs=0.02)
    assert state.target_errors[-1].heading == pytest.approx(5.0, abs=1e-3)
    assert run.results["questions"][0]["score"] == 1.0


def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    whole.mkdir()
    cut.mkdir()
    expected = play(whole, move_once)

    faults = [RuntimeError("no reply")]

    def reply(request):
        if request.question_id == "near" and request.turn == 1 and faults:
            raise faults.pop()
        return move_once(request)

    first = play(cut, reply)
    assert [state.status for state in first.states].count("failed") == 1
    for state in first.states:
        for turn in state.turns[:1]:
            (first.path / turn.views[0].file).unlink()
    (first.path / first.states[0].target_errors[-1].view.file).unlink()
    resumed = RunData(render_agent.continue_run(first.path, engine=reply).path)
    assert [s.target_errors for s in resumed.states] == [s.target_errors for s in expected.states]
    for state in resumed.states:
        for turn in state.turns:
            assert all((resumed.path / file).is_file() for file in turn.image_files)
            twin = expected.states[resumed.states.index(state)].turns[turn.number]
            assert turn.sha256 == twin.sha256
    assert resumed.results["views"] == expected.results["views"]


def test_types_are_one_task_outside_vsi_bench():
    tiers = ["rotation", "translation", "near", "far", "described"]
    kinds = [find_type(f"reach_view_{tier}") for tier in tiers]
    assert [kind.answer_form for kind in kinds] == ["pose"] * 5
    assert {task_of(kind.name) for kind in kinds} == {"reach_view"}
    assert not any(kind.in_vsi_bench for kind in kinds)
    assert [kind.shows_target for kind in kinds] == [True] * 4 + [False]


def test_poses_as_text():
    assert parse_pose("1, 2, 3, 4, 5") == (1, 2, 3, 4, 5)
    assert parse_pose("1 2 3 4") is None
    assert parse_pose("1 2 3 4 nan") is None
