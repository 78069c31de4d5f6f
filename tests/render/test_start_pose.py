"""The start pose is free, at eye height above the floor, and faces the direction with the most to see."""

import math

import numpy as np
import pytest
from conftest import mostly_slow, test_data
from factories.rooms import BLUE, GREEN, RED, as_cloud, box, room
from factories.runs import make_questions, play, walking

from render_agent.errors import UsageError
from render_agent.render.rasteriser.rasteriser import Rasteriser
from render_agent.render.renderer import Frame
from render_agent.render.start_pose import (
    CANDIDATE_YAWS,
    FAR_METRES,
    count_visible_patches,
    moved_start_note,
    parse_start,
    start_camera,
    surface,
)
from render_agent.runs.read import RunData
from render_agent.scans.camera import Camera
from render_agent.scans.free_space.free_space import CLEARANCE_METRES, FreeSpace

FOV = 60.0


@pytest.fixture(scope="module")
def renderer():
    rasteriser = Rasteriser()
    yield rasteriser
    rasteriser.close()


def screened(open_side):
    """Return a room with screens one metre from its middle in all directions except one (a yaw)."""
    screens = []
    for yaw in set(CANDIDATE_YAWS) - {open_side}:
        ahead = np.round([np.cos(np.radians(yaw)), np.sin(np.radians(yaw))])
        half = 0.05 * np.abs(ahead) + 0.9 * (1 - np.abs(ahead))
        screens.append(box((*(ahead - half), 0), (*(ahead + half), 2.2), BLUE))
    return room(*screens, low=(-4, -4), high=(4, 4))


@pytest.mark.parametrize("yaw", mostly_slow(CANDIDATE_YAWS, 90.0))
@pytest.mark.parametrize("shape", ["mesh", "cloud"])
def test_best_faces_the_direction_with_the_most_to_see(renderer, yaw, shape):
    scene = screened(yaw)
    scene = as_cloud(scene, 0.04) if shape == "cloud" else scene
    camera = start_camera(scene, renderer, FreeSpace.of(scene), "best", FOV)
    assert camera.yaw % 360 == yaw
    assert camera.pitch == 0
    assert camera.vertical_fov == FOV


@pytest.mark.parametrize("where", ["best", "middle"])
def test_start_is_free_near_the_middle_at_eye_height(renderer, where):
    pillar = box((-0.4, -0.4, 0), (0.4, 0.4, 2.7), RED)
    table = box((0.5, -1, 0.7), (1.4, 1, 0.75), GREEN)
    scene = room(pillar, table, low=(-3, -3), high=(3, 3))
    space = FreeSpace.of(scene)
    camera = start_camera(scene, renderer, space, where, FOV)
    assert camera.position[2] == pytest.approx(1.6, abs=0.05)
    assert space.clearance(camera.position) >= CLEARANCE_METRES
    assert np.hypot(*camera.position[:2]) < 2.0


def test_ties_go_to_the_first_direction(renderer):
    class Blind:
        name = "blind"

        def draw(self, scene, camera, width, height):
            depth = np.full((height, width), np.inf, np.float32)
            return Frame(np.zeros((height, width, 3), np.uint8), depth)

        def close(self):
            pass

    scene = room()
    space = FreeSpace.of(scene)
    assert start_camera(scene, Blind(), space, "best", FOV).yaw == CANDIDATE_YAWS[0]
    first = start_camera(scene, renderer, space, "best", FOV)
    again = start_camera(scene, Rasteriser(threads=1), FreeSpace.of(scene), "best", FOV)
    assert first == again


def test_free_pose_is_used_unchanged(renderer):
    scene = room(low=(-3, -3), high=(3, 3))
    camera = start_camera(scene, renderer, FreeSpace.of(scene), "1.25,-0.5,1.4,450", FOV)
    assert camera == Camera((1.25, -0.5, 1.4), 90.0, 0.0, FOV)
    assert camera == start_camera(
        scene, renderer, FreeSpace.of(scene), ((1.25, -0.5, 1.4), 90.0), FOV
    )
    assert moved_start_note(scene, "1.25,-0.5,1.4,450", camera) == ()


@pytest.mark.parametrize("place", ["0,0,1.6,30", "2.95,0,1.6,30", "40,0,1.6,30", "0,0,-9,30"])
def test_occupied_pose_is_moved_and_noted(renderer, place):
    pillar = box((-0.15, -0.15, 0), (0.15, 0.15, 2.7), RED)
    scene = room(pillar, low=(-3, -3), high=(3, 3))
    space = FreeSpace.of(scene)
    camera = start_camera(scene, renderer, space, place, FOV)
    assert space.clearance(camera.position) >= CLEARANCE_METRES
    assert camera.yaw == pytest.approx(30)
    x, y, z = (float(number) for number in place.split(",")[:3])
    (note,) = moved_start_note(scene, place, camera)
    assert f"[{x:.2f}, {y:.2f}, {z:.2f}]" in note
    assert f"{math.dist((x, y, z), camera.position):.2f} m" in note
    mirrored = scene.mirrored()
    mirrored_start = start_camera(mirrored, renderer, FreeSpace.of(mirrored), place, FOV)
    (mirrored_note,) = moved_start_note(mirrored, place, mirrored_start)
    assert mirrored_note.rsplit(":")[1] == note.rsplit(":")[1]


@pytest.mark.parametrize(("start", "moved"), [("40,0,1.6,30", True), ("2,1,1.6,30", False)])
def test_moved_start_is_reported_to_model_and_log(tmp_path, caplog, start, moved):
    path, _ = play(tmp_path, make_questions(tmp_path, 1), walking(1), start=start)
    first = RunData(path).lines()[0]
    place = ", ".join(f"{float(number):.2f}" for number in start.split(",")[:3])
    text = f"start [{place}]"
    assert (text in first["messages"][1]["content"][0]["text"]) == moved
    assert any(text in note for note in first["scan"]) == moved
    assert (text in caplog.text) == moved


@pytest.mark.parametrize("label", ["bed", "floor"])
def test_start_avoids_furniture_if_floor_is_free(renderer, label):
    """In stand-in rooms the floor continues below the boxes. Without free floor, any place is acceptable."""
    height = 0.5 if label == "bed" else 0.05
    scene = room(box((-1.5, -1.6, 0), (1.5, 1.6, height), RED), low=(-3, -2), high=(3, 2))
    x, y, _ = FreeSpace.of(scene).start_position()
    inside = abs(x) < 1.5 and abs(y) < 1.6
    assert inside == (label == "floor")
    full = room(box((-3, -2, 0), (3, 2, 0.5), RED), low=(-3, -2), high=(3, 2))
    assert np.abs(FreeSpace.of(full).start_position()[:2]).max() < 0.5


@pytest.mark.parametrize(
    "text", ["", "top", "1,2,3", "1,2,3,4,5", "1,2,x,4", "nan,0,1,0", "0,0,inf,0"]
)
def test_malformed_starts_are_rejected(text):
    with pytest.raises(UsageError, match="best"):
        parse_start(text)


def test_surface_points_project_back_to_their_pixels(renderer):
    scene = room(box((1.5, -1, 0), (2, 1, 1.2), GREEN), low=(-3, -3), high=(3, 3))
    camera = Camera((-1, 0.3, 1.5), 20, -15, FOV)
    frame = renderer.draw(scene, camera, 160, 120)
    points = surface(frame.depth, camera)
    pixels, depth = camera.project(points, 160, 120)
    rows, columns = np.nonzero(frame.depth < FAR_METRES)
    assert np.allclose(pixels, np.column_stack([columns, rows]) + 0.5, atol=1e-4)
    assert np.allclose(depth, frame.depth[rows, columns], atol=1e-5)
    limits = np.array([[-3, -3, 0], [3, 3, 2.7]])
    assert (points >= limits[0] - 1e-3).all()
    assert (points <= limits[1] + 1e-3).all()
    assert 0 < count_visible_patches(scene, renderer, camera) <= 160 * 120


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("aws_small_house.ply", marks=pytest.mark.slow),
        "icl_redwood_livingroom1.ply",
        "pcl_room_scan_nocolour.ply",
    ],
)
def test_start_is_free_in_real_scans(renderer, name):
    from render_agent.scans.formats.load import load_scene

    scene = load_scene(test_data("scenes", name))
    space = FreeSpace.of(scene)
    camera = start_camera(scene, renderer, space, "best", FOV)
    assert space.clearance(camera.position) > 0
    turned = [camera.turned(yaw) for yaw in CANDIDATE_YAWS]
    counts = [count_visible_patches(scene, renderer, view) for view in turned]
    assert count_visible_patches(scene, renderer, camera) == max(counts) > 50
