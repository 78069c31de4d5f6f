"""Targets of make-views: their tiers, that they can be recognised and reached, and what the baselines score on them."""

import json
import math
import signal
import subprocess
import sys
import time
from collections import Counter

import numpy as np
import pytest
from factories.views import SIZE, angle_between, camera_at, grid_distance, shared_surface

import render_agent
from render_agent.errors import UsageError
from render_agent.options import RunConfig
from render_agent.render.make_renderer import make_renderer
from render_agent.runs.read import RunData
from render_agent.scans.formats.load import load_scene
from render_agent.scans.free_space.free_space import FreeSpace
from render_agent.tasks.rooms import BUNDLED
from render_agent_lab.view_targets.make_targets import make_targets
from render_agent_lab.view_targets.target_room import TargetRoom

TIERS = {"rotation": 13, "translation": 13, "near": 13, "far": 13, "described": 12}
ROWS = [json.loads(line) for line in (BUNDLED / "views.jsonl").read_text().splitlines()]
SCENES = sorted({row["scene_name"] for row in ROWS})


def tier_of(row):
    return row["question_type"].removeprefix("reach_view_")


def run(folder, model, **options):
    settings = {"benchmark": "views", "image_size": SIZE, "view_types": ("ego",), **options}
    results = render_agent.run(engine="scripted", model=model, output=folder, **settings)
    return RunData(results.path)


def test_bundled_targets_are_balanced():
    assert Counter(map(tier_of, ROWS)) == TIERS
    assert [f"room{number:02d}" for number in range(8)] == SCENES
    assert len({row["id"] for row in ROWS}) == 64


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_tiers_are_what_they_are_called(row):
    start, target = row["start"], row["ground_truth"]
    metres, degrees = math.dist(start[:3], target[:3]), angle_between(start[3], target[3])
    tier = tier_of(row)
    assert (metres < 1e-6) == (tier == "rotation")
    if tier == "translation":
        assert degrees == pytest.approx(0.0, abs=1e-4)
        assert target[4] == 0.0
    if tier in ("rotation", "near", "far"):
        assert degrees >= 44.9
    if tier in ("translation", "near"):
        assert 0.79 <= metres <= 3.01
    assert metres > 0.5 or degrees > 30.0  # whoever stays fails
    assert ("target image" in row["question"]) == (tier != "described")


@pytest.mark.slow
def test_bundled_targets_are_reproducible():
    scans = [BUNDLED / f"{scene}.ply" for scene in SCENES]
    rows = make_targets(scans, RunConfig(batch=True), 13, 1)
    assert rows[:64] == ROWS
    assert set(Counter(map(tier_of, rows)).values()) == {13}


@pytest.mark.slow
@pytest.mark.parametrize("scene", SCENES)
def test_200_targets_equal_independent_computation(scene, tmp_path):
    """All rooms together have the 64 bundled and 136 further targets."""
    rows = [row for row in ROWS if row["scene_name"] == scene]
    scan = BUNDLED / f"{scene}.ply"
    further = make_targets([scan], RunConfig(batch=True), 5, 7)
    rows += [{**row, "id": f"{row['id']}-further"} for row in further][:17]
    (tmp_path / "views.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for suffix in ("ply", "json"):
        (tmp_path / f"{scene}.{suffix}").symlink_to((BUNDLED / f"{scene}.{suffix}").resolve())
    walked = run(tmp_path / "runs", "random", benchmark=tmp_path / "views.jsonl", max_turns=3)
    space, mesh, renderer = FreeSpace.of(load_scene(scan)), load_scene(scan), make_renderer()
    truth = {row["id"]: row for row in rows}
    assert len(walked.states) == len(rows)
    for state in walked.states:
        start, target = truth[state.id]["start"], truth[state.id]["ground_truth"]
        for turn, error in enumerate(state.target_errors):
            camera = state.turns[0].camera_before if turn == 0 else state.turns[turn - 1].camera
            offset = np.subtract(camera.position, target[:3])
            assert error.position == pytest.approx(float(np.sqrt(offset @ offset)), abs=2e-4)
            assert error.heading == pytest.approx(angle_between(camera.yaw, target[3]), abs=2e-3)
            assert error.pitch == pytest.approx(abs(camera.pitch - target[4]), abs=1e-3)
            cameras = [camera, camera_at(target)]
            depths = [renderer.draw(mesh, c, 128, 96).depth for c in cameras]
            assert error.overlap == pytest.approx(shared_surface(depths, cameras), abs=0.04)
        first = state.target_errors[0]
        assert first.path >= first.position - 1e-3
        if first.path > first.position + 1e-3:
            expected = grid_distance(space, start[:3], target[:3])
            assert 0.88 * expected - 0.2 <= first.path <= expected + 0.2
        assert space.clearance(target[:3]) >= 0.199
        if tier_of(truth[state.id]) == "far":  # surface hides the target's place
            towards = camera_at((*start[:3], 0, 0)).looking_at(target[:3])
            depth = renderer.draw(mesh, towards, 61, 61).depth[30, 30]
            assert depth < math.dist(start[:3], target[:3])


def test_oracle_reaches_every_target_and_stay_none(tmp_path):
    oracle = run(tmp_path, "oracle", max_turns=8, scene="room04", limit=6)
    assert {row["score"] for row in oracle.results["questions"]} == {1.0}
    assert oracle.results["views"]["spl"]["mean"] > 95
    assert oracle.results["views"]["overlap"]["mean"] > 99
    stay = run(tmp_path, "stay", max_turns=8, scene="room04")
    assert {row["score"] for row in stay.results["questions"]} == {0.0}
    assert {row["turns"] for row in stay.results["questions"]} == {1}
    assert "stays" in stay.record["engine"]["note"]


def test_random_walk_uses_all_turns_and_depends_on_the_seed(tmp_path):
    walks = [run(tmp_path, "random", max_turns=4, limit=4, seed=seed) for seed in (0, 0, 1)]
    first, again, other = ([s.target_errors for s in walk.states] for walk in walks)
    assert first == again
    assert first != other
    assert all(len(state.turns) == 4 and state.status == "answered" for state in walks[0].states)


def test_nearest_view_ends_at_the_most_similar_of_its_views(tmp_path):
    nearest = run(tmp_path, "nearest-view", max_turns=9, scene="room00")
    stay = run(tmp_path, "stay", scene="room00")
    shown = [
        s for s in nearest.states if tier_of({"question_type": s.question.type}) != "described"
    ]
    overlap = lambda states: np.mean([s.target_errors[-1].overlap for s in states])  # noqa: E731
    same = [state for state in stay.states if state.id in {s.id for s in shown}]
    assert overlap(shown) > overlap(same) + 0.2
    assert "random views" in nearest.record["engine"]["note"]


def test_other_questions_are_answered_as_before(tmp_path):
    options = {"benchmark": "rooms", "limit": 6}
    stay, frequency = run(tmp_path, "stay", **options), run(tmp_path, "frequency", **options)
    assert [s.answer for s in stay.states] == [s.answer for s in frequency.states]
    nearest = run(tmp_path, "nearest-view", **options)
    assert [s.answer for s in nearest.states] == [s.answer for s in frequency.states]


def test_targets_look_like_no_other_place():
    scene = load_scene(BUNDLED / "room02.ply")
    room = TargetRoom(scene, FreeSpace.of(scene), None, make_renderer())
    place = room.places[0]
    rows = [row for row in ROWS if row["scene_name"] == "room02"][::2]
    assert all(room.is_distinct(camera_at(row["ground_truth"])) for row in rows)
    assert all(room.has_content(camera_at(row["ground_truth"])) for row in rows)
    # A bare wall, from any place, is neither.
    walls = [camera_at((*place, yaw, 0.0)) for yaw in range(0, 360, 10)]
    assert any(not room.has_content(camera) for camera in walls) or any(
        not room.is_distinct(camera) for camera in walls
    )
    ceiling = camera_at((*place, 0.0, 60.0))
    assert not (room.has_content(ceiling) and room.is_distinct(ceiling))


def test_command_writes_the_tiers_of_a_scan(tmp_path, type_in):
    scan = tmp_path / "room05.ply"
    scan.symlink_to((BUNDLED / "room05.ply").resolve())
    options = ("--to", tmp_path / "views.jsonl", "--per-tier", "1", "--seed", "4")
    code, out, err = type_in("make-views", scan, *options, folder=tmp_path)
    assert (code, out.strip()) == (0, str(tmp_path / "views.jsonl"))
    rows = [json.loads(line) for line in (tmp_path / "views.jsonl").read_text().splitlines()]
    # There is one room, and no file with boxes.
    assert (
        {"rotation", "translation", "near"} <= set(map(tier_of, rows)) <= {*TIERS} - {"described"}
    )
    assert "described: 0" in err
    again = tmp_path / "again.jsonl"
    _, _, err = type_in(
        "make-views", scan, "--to", again, *options[2:], "--limit", "2", folder=tmp_path
    )
    written = again.read_text().splitlines()
    assert written == (tmp_path / "views.jsonl").read_text().splitlines()[:2]
    assert sum(int(line.split(": ")[1]) for line in err.splitlines() if ": " in line) == 2
    code, _, err = type_in("make-views", scan, "--to", "/nowhere/views.jsonl", folder=tmp_path)
    assert code == 2
    assert "--to" in err


def test_passive_views_are_refused(tmp_path):
    with pytest.raises(UsageError, match="--views free"):
        run(tmp_path, "oracle", views="four", view_types=("ego", "top"))


@pytest.mark.slow
def test_killed_and_resumed_run_equals_an_uninterrupted_one(tmp_path):
    options = ["--benchmark", "views", "--engine", "scripted", "--model", "random", "--limit", "10"]
    options += ["--image-size", "96x72", "--view-types", "ego", "--quiet", "--output"]
    start = [sys.executable, "-m", "render_agent", "--batch", *options]
    subprocess.run([*start, tmp_path / "whole"], check=True, timeout=300)
    process = subprocess.Popen([*start, tmp_path / "cut"])
    log = None
    while log is None or log.read_bytes().count(b"\n") < 15:
        time.sleep(0.02)
        log = next((tmp_path / "cut").glob("*/turns.jsonl"), None)
        assert process.poll() is None, "the run ended before it was killed"
    process.send_signal(signal.SIGKILL)
    process.wait()
    resume = [sys.executable, "-m", "render_agent", "--batch", "--continue", log.parent, "--quiet"]
    subprocess.run(resume, check=True, timeout=300)
    (whole,) = (tmp_path / "whole").glob("*")
    expected, resumed = RunData(whole), RunData(log.parent)
    assert [s.target_errors for s in resumed.states] == [s.target_errors for s in expected.states]
    assert resumed.results["views"] == expected.results["views"]
    assert resumed.results["types"] == expected.results["types"]
    for state, twin in zip(resumed.states, expected.states, strict=True):
        assert [turn.sha256 for turn in state.turns] == [turn.sha256 for turn in twin.turns]
