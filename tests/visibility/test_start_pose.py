"""The start pose is free, at eye height above the floor, and shows the most surface."""

import json
import math

import numpy as np
import pytest
from conftest import mostly_slow, test_data
from factories.rooms import BLUE, GREEN, RED, as_cloud, box, room
from factories.runs import make_questions, play, resume, transcripts, truncate_log, walking_engine

from render_agent.errors import UsageError
from render_agent.options import fingerprint_of
from render_agent.render.projection import pixel_points
from render_agent.render.rasteriser.rasteriser import Rasteriser
from render_agent.render.renderer import Frame
from render_agent.runs.read import RunData
from render_agent.scans.camera import Camera
from render_agent.scans.formats.load import load_scene
from render_agent.scans.free_space.free_space import CLEARANCE_METRES, FreeSpace
from render_agent.tasks.rooms import BUNDLED
from render_agent.visibility.coverage import Surface
from render_agent.visibility.panorama import visible_points
from render_agent.visibility.start_pose import (
    CANDIDATE_YAWS,
    EYE_HEIGHT_METRES,
    FAR_METRES,
    HEADINGS,
    PLACES,
    count_visible_patches,
    moved_start_note,
    parse_start,
    start_camera,
)

FOV = 60.0
ASPECT = 4 / 3


def room_with_screens(open_side):
    """Return a room with screens one metre from its middle in all directions except one (a yaw)."""
    screens = []
    for yaw in set(CANDIDATE_YAWS) - {open_side}:
        ahead = np.round([np.cos(np.radians(yaw)), np.sin(np.radians(yaw))])
        half = 0.05 * np.abs(ahead) + 0.9 * (1 - np.abs(ahead))
        screens.append(box((*(ahead - half), 0), (*(ahead + half), 2.2), BLUE))
    return room(*screens, low=(-4, -4), high=(4, 4))


@pytest.mark.parametrize("yaw", mostly_slow(CANDIDATE_YAWS, 90.0))
@pytest.mark.parametrize("shape", ["mesh", "cloud"])
def test_four_headings_faces_the_direction_with_the_most_to_see(rasteriser, yaw, shape):
    scene = room_with_screens(yaw)
    scene = as_cloud(scene, 0.04) if shape == "cloud" else scene
    camera = start_camera(scene, rasteriser, FreeSpace.of(scene), "four-headings", FOV)
    assert camera.yaw % 360 == yaw
    assert camera.pitch == 0
    assert camera.vertical_fov == FOV


def area_in_view(scene, rasteriser, camera, step=0.05):
    """Return the area of the inner walls, floor and ceiling of an empty room that a camera sees, in square metres.

    Computed from the shape of the room, pixel by pixel, without depth images.
    """
    (x0, y0, z0), (x1, y1, z1) = scene.bounds
    sides = [
        ((x0, y0, z0), (0, y1 - y0, 0), (0, 0, z1 - z0)),
        ((x1, y0, z0), (0, y1 - y0, 0), (0, 0, z1 - z0)),
        ((x0, y0, z0), (x1 - x0, 0, 0), (0, 0, z1 - z0)),
        ((x0, y1, z0), (x1 - x0, 0, 0), (0, 0, z1 - z0)),
        ((x0, y0, z0), (x1 - x0, 0, 0), (0, y1 - y0, 0)),
        ((x0, y0, z1), (x1 - x0, 0, 0), (0, y1 - y0, 0)),
    ]
    total = 0.0
    for corner, across, along in sides:
        u, v = (
            np.arange(0, np.linalg.norm(edge), step) / np.linalg.norm(edge)
            for edge in (across, along)
        )
        grid = np.stack(np.meshgrid(u, v), axis=-1).reshape(-1, 2)
        points = np.array(corner) + grid @ np.array([across, along])
        pixels, depth = camera.project(points, 400, 300)
        is_visible = (depth > 0) & (pixels >= 0).all(axis=1) & (pixels < (400, 300)).all(axis=1)
        total += is_visible.sum() * step * step
    return total


@pytest.mark.parametrize("size", [(3.0, 2.0), (1.5, 4.0)])
def test_best_shows_the_most_area_of_an_empty_room(rasteriser, size):
    scene = room(low=(-size[0], -size[1]), high=size)
    space = FreeSpace.of(scene)
    camera = start_camera(scene, rasteriser, space, "best", FOV)
    alternatives = [
        Camera((0.0, 0.0, 0.0), 360 * number / HEADINGS, 0.0, FOV).at(position)
        for position in space.start_places(PLACES, EYE_HEIGHT_METRES)
        for number in range(HEADINGS)
    ]
    areas = [area_in_view(scene, rasteriser, alternative) for alternative in alternatives]
    assert area_in_view(scene, rasteriser, camera) >= 0.97 * max(areas)
    middle = start_camera(scene, rasteriser, space, "four-headings", FOV)
    assert area_in_view(scene, rasteriser, camera) > 1.5 * area_in_view(scene, rasteriser, middle)


def test_visible_points_are_those_in_the_image(rasteriser):
    """The panorama of a place gives each camera there the points that its own image shows."""
    scene = load_scene(BUNDLED / "room00.ply")
    space = FreeSpace.of(scene)
    surface_points = Surface.of(scene, space, rasteriser)
    for pitch, fov in ((0.0, FOV), (-25.0, FOV), (0.0, 100.0)):
        cameras = [
            Camera((0.0, 0.0, 0.0), yaw, pitch, fov).at(space.start_position())
            for yaw in (-170.0, -45.0, 10.0, 90.0)
        ]
        visible = visible_points(scene, rasteriser, cameras, ASPECT, surface_points.points, 6.0)
        for camera, mask in zip(cameras, visible, strict=True):
            expected = surface_points.seen(rasteriser.draw(scene, camera, 640, 480), camera)
            assert np.mean(expected != mask) < 0.03
            assert (expected & mask).sum() > 0.95 * expected.sum() > 0


@pytest.mark.parametrize("name", mostly_slow([f"room0{n}" for n in range(8)], "room02"))
def test_best_in_a_bundled_room(rasteriser, name):
    """The start is the same for all renderers and image sizes, in the open area, and mirrored in a mirrored room."""
    scene = load_scene(BUNDLED / f"{name}.ply")
    space = FreeSpace.of(scene)
    camera = start_camera(scene, rasteriser, space, "best", FOV, ASPECT)
    assert camera == start_camera(scene, Rasteriser(threads=1), FreeSpace.of(scene), "best", FOV)
    assert space.clearance(camera.position) >= CLEARANCE_METRES
    assert camera.position[2] == pytest.approx(scene.floor + EYE_HEIGHT_METRES)
    assert camera.pitch == 0
    mirrored = scene.mirrored()
    mirrored_camera = start_camera(mirrored, rasteriser, FreeSpace.of(mirrored), "best", FOV)
    expected = camera.mirrored(mirrored.mirrored_at)
    assert mirrored_camera.position == pytest.approx(expected.position, abs=1e-5)
    assert mirrored_camera.yaw == pytest.approx(expected.yaw)


def test_start_is_not_in_a_closed_off_part(rasteriser):
    """The places of `best` are connected: behind a wall without a door there is more to see, but no way there."""
    wall = box((0.8, -3, 0), (1.0, 3, 2.7), BLUE)
    furniture = [box((1.6, y, 0), (2.2, y + 0.3, 1.2), RED) for y in (-2.0, -1.0, 0.0, 1.0)]
    scene = room(wall, *furniture, low=(-3, -3), high=(3, 3))
    camera = start_camera(scene, rasteriser, FreeSpace.of(scene), "best", FOV)
    assert camera.position[0] < 0.8


@pytest.mark.parametrize("rule", ["four-headings", "middle"])
def test_start_is_free_near_the_middle_at_eye_height(rasteriser, rule):
    pillar = box((-0.4, -0.4, 0), (0.4, 0.4, 2.7), RED)
    table = box((0.5, -1, 0.7), (1.4, 1, 0.75), GREEN)
    scene = room(pillar, table, low=(-3, -3), high=(3, 3))
    space = FreeSpace.of(scene)
    camera = start_camera(scene, rasteriser, space, rule, FOV)
    assert camera.position[2] == pytest.approx(1.6, abs=0.05)
    assert space.clearance(camera.position) >= CLEARANCE_METRES
    assert np.hypot(*camera.position[:2]) < 2.0


def test_ties_go_to_the_first_direction(rasteriser):
    class EmptyRenderer:
        name = "blind"

        def draw(self, scene, camera, width, height):
            depth = np.full((height, width), np.inf, np.float32)
            return Frame(np.zeros((height, width, 3), np.uint8), depth)

        def close(self):
            pass

    scene = room()
    space = FreeSpace.of(scene)
    for rule in ("best", "four-headings"):
        assert start_camera(scene, EmptyRenderer(), space, rule, FOV).yaw == CANDIDATE_YAWS[0]
    first = start_camera(scene, rasteriser, space, "best", FOV)
    repeated = start_camera(scene, Rasteriser(threads=1), FreeSpace.of(scene), "best", FOV)
    assert first == repeated


def test_free_pose_is_used_unchanged(rasteriser):
    scene = room(low=(-3, -3), high=(3, 3))
    start = parse_start("1.25,-0.5,1.4,450")
    camera = start_camera(scene, rasteriser, FreeSpace.of(scene), start, FOV)
    assert camera == Camera((1.25, -0.5, 1.4), 90.0, 0.0, FOV)
    assert moved_start_note(scene, start, camera) == ()


@pytest.mark.parametrize("position", ["0,0,1.6,30", "2.95,0,1.6,30", "40,0,1.6,30", "0,0,-9,30"])
def test_occupied_pose_is_moved_and_noted(rasteriser, position):
    pillar = box((-0.15, -0.15, 0), (0.15, 0.15, 2.7), RED)
    scene = room(pillar, low=(-3, -3), high=(3, 3))
    space = FreeSpace.of(scene)
    start = parse_start(position)
    camera = start_camera(scene, rasteriser, space, start, FOV)
    assert space.clearance(camera.position) >= CLEARANCE_METRES
    assert camera.yaw == pytest.approx(30)
    x, y, z = (float(number) for number in position.split(",")[:3])
    (note,) = moved_start_note(scene, start, camera)
    assert f"[{x:.2f}, {y:.2f}, {z:.2f}]" in note
    assert f"{math.dist((x, y, z), camera.position):.2f} m" in note
    mirrored = scene.mirrored()
    mirrored_start = start_camera(mirrored, rasteriser, FreeSpace.of(mirrored), start, FOV)
    (mirrored_note,) = moved_start_note(mirrored, start, mirrored_start)
    assert mirrored_note.rsplit(":")[1] == note.rsplit(":")[1]


@pytest.mark.parametrize(("start", "moved"), [("40,0,1.6,30", True), ("2,1,1.6,30", False)])
def test_moved_start_is_reported_to_model_log_and_terminal(tmp_path, caplog, start, moved):
    path, _ = play(tmp_path, make_questions(tmp_path, 1), walking_engine(1), start=start)
    first = RunData(path).lines()[0]
    position = ", ".join(f"{float(number):.2f}" for number in start.split(",")[:3])
    text = f"start [{position}]"
    assert (text in first["messages"][1]["content"][0]["text"]) == moved
    assert any(text in note for note in first["scan"]) == moved
    assert (text in caplog.text) == moved


@pytest.mark.parametrize("label", ["bed", "floor"])
def test_start_avoids_furniture_if_floor_is_free(rasteriser, label):
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


def test_surface_points_project_back_to_their_pixels(rasteriser):
    scene = room(box((1.5, -1, 0), (2, 1, 1.2), GREEN), low=(-3, -3), high=(3, 3))
    camera = Camera((-1, 0.3, 1.5), 20, -15, FOV)
    frame = rasteriser.draw(scene, camera, 160, 120)
    points = pixel_points(frame.depth, camera, FAR_METRES)
    pixels, depth = camera.project(points, 160, 120)
    rows, columns = np.nonzero(frame.depth < FAR_METRES)
    assert np.allclose(pixels, np.column_stack([columns, rows]) + 0.5, atol=1e-4)
    assert np.allclose(depth, frame.depth[rows, columns], atol=1e-5)
    limits = np.array([[-3, -3, 0], [3, 3, 2.7]])
    assert (points >= limits[0] - 1e-3).all()
    assert (points <= limits[1] + 1e-3).all()
    assert 0 < count_visible_patches(scene, rasteriser, camera) <= 160 * 120


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("aws_small_house.ply", marks=pytest.mark.slow),
        "icl_redwood_livingroom1.ply",
        "pcl_room_scan_nocolour.ply",
    ],
)
def test_start_is_free_in_real_scans(rasteriser, name):
    scene = load_scene(test_data("scenes", name))
    space = FreeSpace.of(scene)
    assert space.clearance(start_camera(scene, rasteriser, space, "best", FOV).position) > 0
    camera = start_camera(scene, rasteriser, space, "four-headings", FOV)
    assert space.clearance(camera.position) > 0
    turned = [camera.turned(yaw) for yaw in CANDIDATE_YAWS]
    counts = [count_visible_patches(scene, rasteriser, view) for view in turned]
    assert count_visible_patches(scene, rasteriser, camera) == max(counts) > 50


def test_runs_of_earlier_versions_resume_with_their_rule(tmp_path):
    """They stored "best" for the best of four headings; new runs store the name of the rule."""
    questions = make_questions(tmp_path, 2)
    path, _ = play(tmp_path / "old", questions, walking_engine(1), start="four-headings")
    expected = transcripts(path)
    record = json.loads((path / "config.json").read_text())
    record["config"]["start"] = "best"
    record["fingerprint"] = fingerprint_of(record["config"])
    (path / "config.json").write_text(json.dumps(record))
    truncate_log(path, 1)
    resume(path, walking_engine(1))
    assert transcripts(path) == expected
    assert RunData(path).config.start == "four-headings"
    new, _ = play(tmp_path / "new", questions, walking_engine(1), start="best")
    assert RunData(new).record["config"]["start"] == "most-surface"
    assert RunData(new).config.start == "best"
    assert transcripts(new) != expected
