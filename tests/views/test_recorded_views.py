"""`--views recorded` shows the camera path recorded with a scan, rendered or as its frames (`--frames`)."""

import json
import shutil

import numpy as np
import pytest
from factories.reports import complete_run
from factories.runs import (
    comparable_results,
    images,
    make_questions,
    play,
    resume,
    transcripts,
    truncate_log,
)
from PIL import Image

from render_agent.engines.scripted import ReplayPolicy, ScriptedEngine
from render_agent.errors import SetupError, UsageError
from render_agent.options import RunConfig
from render_agent.runs.build import build
from render_agent.runs.read import RunData
from render_agent.score.summary import ORDER_NOTE
from render_agent.tasks.rooms import BUNDLED
from render_agent.views.free_views import read_frame

DONE = json.dumps({"answer": "B", "done": True})
POSES = [
    {
        "position": [1.0 + 0.2 * n, 1.5, 1.4],
        "yaw": 20.0 * n,
        "pitch": -10,
        "time": n,
        "image": f"{n:04}.jpg",
    }
    for n in range(10)
]


def scripted():
    count = json.dumps({"answer": 3, "done": True})
    return ScriptedEngine(ReplayPolicy({"*": [DONE], "0": [count]}))


def with_path(folder, poses=POSES):
    """Return questions about a scan with a recorded path."""
    folder.mkdir(exist_ok=True)
    questions = make_questions(folder, 2)
    (folder / "room.poses.json").write_text(json.dumps({"poses": poses}))
    return questions


def test_views_are_on_the_path_and_even_in_time(tmp_path):
    path, results = play(tmp_path, with_path(tmp_path), scripted(), views="recorded:4")
    run = RunData(path)
    for state in run.states:
        (turn,) = state.turns
        assert [view.kind for view in turn.views] == ["ego"] * 4
        assert [round(view.camera.position[0], 3) for view in turn.views] == [1.0, 1.6, 2.2, 2.8]
        assert "camera path: 10 poses, none dropped" in turn.scan
        assert "View 3 (ego), from [2.80, 1.50, 1.40], yaw 180, pitch -10:" in json.dumps(
            turn.messages
        )
    assert len(images(path)) == 4  # shared by the questions of the scene
    assert any("4 images of the recorded camera path" in note for note in results["notes"])
    assert str(tmp_path / "room.poses.json") in run.recorded["scans"]


def test_default_number_of_views_is_that_of_a_free_dialogue():
    parts = build(RunConfig(batch=True, views="recorded", max_turns=6))
    assert parts.max_views == 6
    assert parts.passive


def test_dropped_poses_are_stated(tmp_path):
    outside = [{"position": [90, 0, 1], "yaw": 0}, {"position": [1, 1, -3], "yaw": 0}]
    path, _ = play(tmp_path, with_path(tmp_path, POSES + outside), scripted(), views="recorded:2")
    assert (
        "camera path: 10 poses, dropped 1 below the floor, 1 outside the scan"
        in RunData(path).turns[0].scan
    )


def make_frames(folder, images_by_name):
    folder.mkdir(parents=True)
    for name, image in images_by_name.items():
        Image.fromarray(image).save(folder / name)


@pytest.mark.parametrize("place", ["", "color"])
def test_frames_replace_renderings(tmp_path, place):
    colours = {f"{n:04}.png": np.full((90, 160, 3), 20 * n, np.uint8) for n in (0, 3, 6, 9)}
    make_frames(tmp_path / "frames" / "room" / place, colours)
    options = {"views": "recorded:3", "frames": str(tmp_path / "frames")}
    path, _ = play(tmp_path, with_path(tmp_path), scripted(), **options)
    turn = RunData(path).turns[0]
    shown = [np.asarray(Image.open(path / view.file)) for view in turn.views]
    assert [image.shape for image in shown] == [(72, 96, 3)] * 3
    assert [int(image.mean()) for image in shown] == [0, 60, 180]  # those nearest in time
    before, results = transcripts(path), comparable_results(path)
    assert any("0003.png" in name for name in turn.scan_files)
    (path / turn.views[1].file).unlink()  # is read again, not rendered
    truncate_log(path, 1)
    resume(path, scripted())
    assert transcripts(path) == before
    assert comparable_results(path) == results
    assert np.asarray(Image.open(path / turn.views[1].file)).mean() == 60


def test_unreadable_frame_is_named(tmp_path, monkeypatch):
    make_frames(tmp_path / "frames" / "room", {"0003.png": np.zeros((90, 160, 3), np.uint8)})
    monkeypatch.setattr(
        Image, "MAX_IMAGE_PIXELS", 100
    )  # else an image of the limit's size is needed
    options = {"views": "recorded:1", "frames": str(tmp_path / "frames")}
    path, results = play(tmp_path, with_path(tmp_path), scripted(), **options)
    assert results["counts"]["failed"] == 2
    assert all("0003.png" in state.error for state in RunData(path).states)


def test_frames_are_cropped_in_the_middle(tmp_path):
    image = np.zeros((100, 200, 3), np.uint8)
    image[:, 50:150] = 255
    Image.fromarray(image).save(tmp_path / "wide.png")
    assert read_frame(tmp_path / "wide.png", (100, 100)).min() == 255


def test_killed_run_equals_the_whole_one(tmp_path):
    whole, _ = play(tmp_path / "a", with_path(tmp_path / "a"), scripted(), views="recorded:3")
    path, _ = play(tmp_path / "b", with_path(tmp_path / "b"), scripted(), views="recorded:3")
    shutil.rmtree(path / "views")
    truncate_log(path, 1)
    resume(path, scripted())
    assert transcripts(path) == transcripts(whole)
    assert images(path) == images(whole)


def test_scan_without_a_path_is_refused(tmp_path):
    with pytest.raises(SetupError, match=r"1 of 1 scans .*room\.poses\.json"):
        play(tmp_path, make_questions(tmp_path), scripted(), views="recorded")
    options = {"views": "recorded", "frames": str(tmp_path / "nowhere")}
    with pytest.raises(SetupError, match="has no images in the folder room"):
        play(tmp_path, with_path(tmp_path), scripted(), **options)


@pytest.mark.parametrize(
    "options",
    [
        {"views": "recorded:0"},
        {"views": "recorded:many"},
        {"views": "tour:3"},
        {"views": "video"},
        {"views": "recorded", "view_types": ("top",)},
        {"views": "tour", "frames": "frames"},
        {"views": "recorded", "frames": "frames", "image_stress": "mirrored"},
    ],
)
def test_invalid_values_are_refused(options):
    with pytest.raises(UsageError):
        build(RunConfig(batch=True, **options))


def order_questions(folder):
    questions = with_path(folder)
    rows = [json.loads(line) for line in questions.read_text().splitlines()]
    for row in rows:
        options = ["A. chair, table", "B. table, chair"]
        row |= {"question_type": "obj_appearance_order", "options": options, "ground_truth": "B"}
        row["question"] = (
            "What will be the first-time appearance order of the following categories in the video: chair, table?"
        )
    questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return questions


def test_order_of_appearance_can_be_answered_from_the_path(tmp_path):
    questions = order_questions(tmp_path)
    engine = ScriptedEngine(ReplayPolicy({"*": [DONE]}))
    _, recorded = play(tmp_path, questions, engine, views="recorded:3")
    _, four = play(tmp_path, questions, engine, views="four")
    assert ORDER_NOTE in four["notes"]
    assert ORDER_NOTE not in recorded["notes"]
    assert recorded["types"]["obj_appearance_order"]["score"] == 100


@pytest.mark.skipif(not BUNDLED.is_dir(), reason="the bundled rooms are missing")
def test_bundled_rooms_have_a_path_inside(tmp_path):
    path, _ = play(tmp_path, "rooms", scripted(), views="recorded:2", max_turns=1)
    notes = {note for turn in RunData(path).turns for note in turn.scan if "camera path" in note}
    assert len(notes) >= 6
    assert all("none dropped" in note for note in notes)


@pytest.mark.skipif(not BUNDLED.is_dir(), reason="the bundled rooms are missing")
def test_path_determines_the_order_of_appearance(tmp_path):
    text = "What will be the first-time appearance order of the following categories in the video: "
    listed = ["piano", "bed", "bathtub"]  # shown from poses 0, 9 and 24 of 60 on
    options = [
        "A. bathtub, bed, piano",
        "B. piano, bathtub, bed",
        "C. piano, bed, bathtub",
        "D. bed, piano, bathtub",
    ]
    row = {
        "id": 1, "dataset": "rooms", "scene_name": "room01", "question_type": "obj_appearance_order",
        "question": f"{text}{', '.join(listed)}?", "options": options, "ground_truth": "C",
    }  # fmt: skip
    for name in ("room01.ply", "room01.json", "room01.poses.json"):
        shutil.copy(BUNDLED / name, tmp_path / name)
    file = tmp_path / "order.jsonl"
    file.write_text(json.dumps(row) + "\n")
    config = {
        "benchmark": str(file),
        "engine": "scripted",
        "model": "witness",
        "image_size": (320, 240),
    }
    answers = {}
    for views in ("recorded:60", "coverage"):
        run = complete_run(
            RunConfig(batch=True, output=str(tmp_path / views), views=views, **config)
        )
        answers[views] = run.states[0].turns[0].action
    assert answers["recorded:60"].answer == "C"
    assert "seen what this is about" in answers["recorded:60"].reasoning
    assert "Nobody can tell" in answers["coverage"].reasoning


@pytest.mark.skipif(not BUNDLED.is_dir(), reason="the bundled rooms are missing")
@pytest.mark.parametrize("stress", ["mirrored", "shuffled"])
def test_stress_tests_show_the_path_of_the_shown_scene(tmp_path, stress):
    options = {"scene": ("room05", "room07"), "views": "recorded:3", "max_turns": 1}
    real, stressed = (
        RunData(play(tmp_path / name, "rooms", scripted(), image_stress=name, **options)[0])
        for name in ("real", stress)
    )
    paths = [
        {state.question.scene: [v.camera for v in state.turns[0].views] for state in run.states}
        for run in (real, stressed)
    ]
    if stress == "shuffled":
        assert paths[1] == {"room05": paths[0]["room07"], "room07": paths[0]["room05"]}
        return
    for scene, cameras in paths[1].items():
        for camera, original in zip(cameras, paths[0][scene], strict=True):
            assert camera.position[1:] == pytest.approx(original.position[1:])
            assert (camera.yaw + original.yaw) % 360 == pytest.approx(180)
