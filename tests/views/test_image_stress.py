"""Image stress tests: blank images, exchanged scenes, mirrored scenes."""

import json
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from conftest import mostly_slow, test_data
from factories import TREE
from factories.runs import (
    make_config,
    make_questions,
    play,
    resume,
    transcripts,
    truncate_log,
    walking_engine,
)
from factories.scenes import room, write_ply
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from render_agent import registry
from render_agent.dialogue.answer import options_by_letter
from render_agent.dialogue.question import Question
from render_agent.errors import UsageError
from render_agent.render.make_renderer import make_renderer
from render_agent.runs.read import RunData
from render_agent.runs.runner import start_run
from render_agent.scans.camera import Camera, wrap_degrees
from render_agent.scans.formats.load import load_scene
from render_agent.scans.free_space.free_space import FreeSpace
from render_agent.tasks.question_types import DIRECTION_TYPES
from render_agent.tasks.row_files import load_questions
from render_agent.views.stress.blank import noise_image
from render_agent.views.stress.mirrored import (
    SIDE_OF_THE_ROOM,
    mirrored_ground_truth,
    names_sides,
    swap_sides,
)
from render_agent.views.stress.shuffled import exchanged_scenes
from render_agent.visibility.start_pose import start_camera

ROOMS = TREE / "scenes"


def vsibench():
    return load_questions(test_data("vsibench", "test.jsonl"), "vsibench")


@pytest.mark.parametrize(
    ("text", "mirrored"),
    [
        ("left", "right"),
        ("back", "back"),
        ("front-left", "front-right"),
        ("Turn Left, Turn Back, Turn Right", "Turn Right, Turn Back, Turn Left"),
        ("RIGHT", "LEFT"),
        ("leftover bright copyright", "leftover bright copyright"),
    ],
)
def test_left_and_right_are_swapped(text, mirrored):
    assert swap_sides(text) == mirrored
    assert swap_sides(mirrored) == text


def test_mirrored_ground_truth_of_vsibench():
    questions = [question for question in vsibench() if names_sides(question)]
    assert {question.type for question in questions} == {*DIRECTION_TYPES, "route_planning"}
    unknown = Counter()
    for question in questions:
        options = options_by_letter(question.options)
        result = mirrored_ground_truth(question)
        if result is None:
            # The answer to a route question can be mirrored only if its mirror image is an option.
            option_texts = {text.lower() for text in options.values()}
            mirrored = swap_sides(options[question.ground_truth]).lower()
            assert mirrored not in option_texts or SIDE_OF_THE_ROOM.search(question.text)
            unknown[question.type] += 1
            continue
        assert options[result].lower() == swap_sides(options[question.ground_truth]).lower()
        is_symmetric = swap_sides(options[question.ground_truth]) == options[question.ground_truth]
        assert (result == question.ground_truth) == is_symmetric
        assert (
            mirrored_ground_truth(replace(question, ground_truth=result)) == question.ground_truth
        )
    assert unknown == {"route_planning": 70}
    counts = Counter(question.type for question in questions)
    assert counts == {
        "object_rel_direction_easy": 217,
        "object_rel_direction_medium": 378,
        "object_rel_direction_hard": 373,
        "route_planning": 194,
    }


def test_mirrored_ground_truth_is_unknown_without_sides_or_ground_truth():
    question = Question(
        "1", "b", "d", "s", "object_rel_distance", "?", "letter", ("A. bed", "B. tv")
    )
    assert not names_sides(question)
    sides = replace(question, options=("A. left", "B. right"))
    assert mirrored_ground_truth(sides) is None
    assert mirrored_ground_truth(replace(sides, ground_truth="a")) == "B"
    text = "until the bin is on your right. Which turn?"
    assert mirrored_ground_truth(replace(sides, ground_truth="A", text=text)) is None


def read_images(path):
    """Return the images of a run by name."""
    files = sorted((path / "views").rglob("*.png"))
    return {str(file.relative_to(path)): np.asarray(Image.open(file)) for file in files}


@pytest.mark.parametrize("kind", ["black", "noise"])
def test_blank_images_change_nothing_else(tmp_path, kind):
    questions = make_questions(tmp_path)
    real, results = play(tmp_path, questions, walking_engine(4))
    path, result = play(tmp_path, questions, walking_engine(4), image_stress=kind)
    assert transcripts(path) == transcripts(real)
    ours, theirs = read_images(path), read_images(real)
    assert ours.keys() == theirs.keys()
    assert all(ours[name].shape == theirs[name].shape for name in ours)
    assert len(ours) > 4
    if kind == "black":
        assert not any(image.any() for image in ours.values())
    else:
        values = np.concatenate([image.ravel() for image in ours.values()])
        assert abs(values.mean() - 127.5) < 1
        assert set(values) == set(range(256))
        assert len({image.tobytes() for image in ours.values()}) == len(ours)
    assert [note for note in result["notes"] if note not in results["notes"]] == [
        registry.load("image stress", kind).note
    ]
    assert result["questions"] == results["questions"]


def test_noise_is_deterministic(tmp_path):
    path, _ = play(
        tmp_path, make_questions(tmp_path), walking_engine(4), image_stress="noise", seed=3
    )
    before = read_images(path)
    for name in list(before)[::2]:
        (path / name).unlink()
    truncate_log(path, len(RunData(path).lines()) - 1)
    resume(path, walking_engine(4))
    after = read_images(path)
    assert before.keys() == after.keys()
    assert all((before[name] == after[name]).all() for name in before)
    assert (noise_image((4, 5, 3), "a", 3) != noise_image((4, 5, 3), "a", 4)).any()
    assert (noise_image((4, 5, 3), "a", 3) != noise_image((4, 5, 3), "b", 3)).any()


def three_rooms(folder):
    """Write three rooms of different sizes and four questions; return the question file."""
    rows = []
    for number, scale in enumerate((1.0, 1.2, 0.8)):
        points, colours, faces = room()
        write_ply(folder / f"scan{number}.ply", points * np.float32(scale), colours, faces)
    for number, scene in enumerate((0, 1, 2, 0)):
        rows.append(
            {
                "id": number,
                "dataset": "rooms",
                "scene_name": f"scan{scene}",
                "question_type": "object_counting",
                "question": "How many box(s) are in this room?",
                "options": None,
                "ground_truth": "3",
            }
        )
    path = folder / "questions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def first_views(path):
    """Return the first images of every scene of a run."""
    folders = sorted((path / "views" / "scenes").iterdir())
    return {
        folder.name: [(folder / f"0_{kind}.png").read_bytes() for kind in ("top", "ego")]
        for folder in folders
    }


def test_shuffled_dialogues_use_another_scene(tmp_path):
    questions = three_rooms(tmp_path)
    real, _ = play(tmp_path, questions, walking_engine(4))
    shuffled, result = play(tmp_path, questions, walking_engine(4), image_stress="shuffled")
    workers, _ = play(tmp_path, questions, walking_engine(4), image_stress="shuffled", shuffle=True)
    ours, theirs = first_views(real), first_views(shuffled)
    matches = {name: [scenes for scenes in ours if ours[scenes] == theirs[name]] for name in theirs}
    assert all(len(scenes) == 1 and scenes != [name] for name, scenes in matches.items())
    assert sorted(scenes for (scenes,) in matches.values()) == sorted(matches)
    assert first_views(workers) == theirs
    assert registry.load("image stress", "shuffled").note in result["notes"]


@given(st.sets(st.integers(0, 10**6), min_size=2, max_size=40), st.integers(0, 10), st.randoms())
def test_exchange_is_a_derangement_in_any_order(numbers, seed, rng):
    questions = [
        Question(
            f"{scene}-{n}", "b", "d", f"s{scene}", "t", "?", "text", scan=Path(f"/{scene}.ply")
        )
        for scene in numbers
        for n in range(2)
    ]
    result = exchanged_scenes(questions, seed)
    assert result.keys() == set(result.values()) == {(q.scan, q.scene) for q in questions}
    assert not [scene for scene, replacement in result.items() if scene == replacement]
    rng.shuffle(questions)
    assert exchanged_scenes(questions, seed) == result


def test_invalid_stress_tests_are_refused(tmp_path):
    questions = make_questions(tmp_path)
    with pytest.raises(UsageError, match="at least two scenes"):
        start_run(make_config(tmp_path, questions, image_stress="shuffled"))
    with pytest.raises(UsageError, match="Omit --shard"):
        start_run(
            make_config(tmp_path, three_rooms(tmp_path), image_stress="shuffled", shard="1/2")
        )
    with pytest.raises(UsageError, match=r"--image-stress.*--views none"):
        start_run(make_config(tmp_path, questions, image_stress="black", views="none"))
    assert not (tmp_path / "runs").exists()


@cache
def bundled_room(number):
    scene = load_scene(ROOMS / f"room{number:02d}.ply")
    mirrored = scene.mirrored()
    return scene, mirrored, FreeSpace.of(scene), FreeSpace.of(mirrored)


@pytest.mark.parametrize("number", mostly_slow([0, 2, 5, 7], 2))
def test_mirrored_dialogue_starts_at_mirrored_pose(number):
    scene, mirrored, space, mirrored_space = bundled_room(number)
    renderer = make_renderer()
    for start in ("best", "middle", ((0.4, 0.7, 1.2), 30.0)):
        camera = start_camera(scene, renderer, space, start, 60.0)
        expected = camera.mirrored(mirrored.mirrored_at)
        result = start_camera(mirrored, renderer, mirrored_space, start, 60.0)
        assert result.position == pytest.approx(expected.position, abs=1e-9)
        assert abs(wrap_degrees(result.yaw - expected.yaw)) < 1e-9


def as_cloud(scene, count=300_000):
    """Return points sampled uniformly from the surface of a mesh."""
    rng = np.random.default_rng(0)
    corners = scene.points[scene.faces].astype(float)
    sides = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    area = np.linalg.norm(sides, axis=1)
    face_indices = rng.choice(len(area), count, p=area / area.sum())
    weights = rng.dirichlet((1, 1, 1), count)
    points = np.einsum("nk,nkd->nd", weights, corners[face_indices]).astype(np.float32)
    return replace(
        scene, points=points, colours=scene.colours[scene.faces[face_indices, 0]], faces=None
    )


@pytest.mark.parametrize("cloud", mostly_slow([False, True], False))
def test_mirrored_camera_renders_mirrored_image(cloud):
    scene, mirrored, space, _ = bundled_room(2)
    if cloud:
        scene = as_cloud(scene)
        mirrored = scene.mirrored()
    renderer, rng = make_renderer(), np.random.default_rng(5)
    for _ in range(6):
        position = tuple(space.nearest_free(rng.uniform(*space.bounds)))
        yaw, pitch = float(rng.uniform(-180, 180)), float(rng.uniform(-40, 40))
        camera = Camera(position, yaw, pitch, 60.0)
        frame = renderer.draw(scene, camera, 160, 120)
        mirrored_frame = renderer.draw(mirrored, camera.mirrored(mirrored.mirrored_at), 160, 120)
        colours = np.abs(frame.colours.astype(int) - np.fliplr(mirrored_frame.colours)).max(axis=2)
        depths = frame.depth[:, ::-1], mirrored_frame.depth
        is_surface = np.isfinite(depths[0]) & np.isfinite(depths[1])
        depth_errors = np.abs(depths[0][is_surface] - depths[1][is_surface])
        if cloud:  # splats are as large as their block, and blocks are not mirrored
            assert (colours > 30).mean() < 0.05
            assert (depth_errors > 0.05).mean() < 0.05
        else:  # some surface falls on the other side of a pixel centre
            assert (colours > 0).mean() < 0.001
            assert (depth_errors > 1e-4).mean() < 0.001
