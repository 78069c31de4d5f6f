"""The up axis and unit of scan files, specified or assumed."""

import json
import re

import numpy as np
import pytest
import trimesh
from conftest import test_data
from factories.scans import block, joined, mesh_ply, rectangle, room, sample_points

import render_agent
from render_agent.errors import SceneError
from render_agent.scans.file_frame import METRES, UPRIGHT
from render_agent.scans.formats.cleaning import upright_turn
from render_agent.scans.formats.load import load_scene

POINTS, FACES = room(block((1, 1, 0), (2, 2, 0.75)))
COLOURS = np.random.default_rng(7).integers(0, 256, POINTS.shape)


def write_scan(folder, points, faces=FACES, colours=COLOURS, name="scan.ply"):
    path = folder / name
    path.write_bytes(mesh_ply(points, faces, colours))
    return path


@pytest.mark.parametrize("up", UPRIGHT)
def test_any_up_axis_gives_an_upright_unmirrored_scene(tmp_path, up):
    turn = upright_turn(up)
    assert np.linalg.det(turn) == 1
    scene = load_scene(
        write_scan(tmp_path, POINTS @ turn), up=up
    )  # rotated by the transpose, its inverse
    assert np.array_equal(scene.points, POINTS.astype(np.float32))
    assert (
        turn[2] @ {"x": (1, 0, 0), "y": (0, 1, 0), "z": (0, 0, 1)}[up[-1]] == (1, -1)[len(up) - 1]
    )
    assert (scene.frame.up, scene.frame.asked) == (up, (up, "auto"))


@pytest.mark.parametrize("unit", METRES)
def test_specified_units_are_converted_to_metres(tmp_path, unit):
    scene = load_scene(write_scan(tmp_path, POINTS / METRES[unit]), unit=unit)
    assert np.allclose(scene.points, POINTS, atol=1e-5)
    assert "unit" not in scene.frame.assumed


@pytest.mark.parametrize(
    ("unit", "size"), [("cm", "600 x 400 x 270"), ("mm", "6,000 x 4,000 x 2,700"), ("in", "236")]
)
def test_implausible_size_suggests_the_likely_unit(tmp_path, unit, size):
    path = write_scan(tmp_path, POINTS / METRES[unit])
    with pytest.raises(SceneError, match=f"{re.escape(size)}.*--unit {unit} ") as error:
        load_scene(path)
    assert "(6 x 4 x 2.7 m)" in str(error.value)


def test_small_room_is_rejected_unless_its_unit_is_specified(tmp_path):
    path = write_scan(tmp_path, POINTS * 0.05)
    with pytest.raises(SceneError, match=r"0\.3 x 0\.2 x 0\.135 m"):
        load_scene(path)
    assert load_scene(path, unit="m").ceiling == pytest.approx(0.135)
    with pytest.raises(SceneError, match="metres"):
        load_scene(write_scan(tmp_path, POINTS * 0.001))


@pytest.mark.parametrize(("unit", "size"), [("mm", "0.006 x 0.004 x 0.0027"), ("cm", "0.06 x")])
def test_wrong_unit_suggests_the_right_one(tmp_path, unit, size):
    with pytest.raises(SceneError, match=f"{re.escape(size)}.*--unit m ") as error:
        load_scene(write_scan(tmp_path, POINTS), unit=unit)
    assert "(6 x 4 x 2.7 m)" in str(error.value)
    with pytest.raises(SceneError, match="--unit m"):
        load_scene(write_scan(tmp_path, POINTS * [3, 3, 1]), unit=unit)


def test_invalid_points_are_counted_in_a_note(tmp_path):
    points = POINTS.copy()
    points[0] = np.nan
    scene = load_scene(write_scan(tmp_path, points))
    assert any(note.startswith(f"1 of {len(POINTS)} points") for note in scene.notes)


def test_large_hall_is_read_if_its_unit_is_specified(tmp_path):
    path = write_scan(tmp_path, POINTS * [50, 50, 4])
    with pytest.raises(SceneError, match=r"--unit m\b"):
        load_scene(path)
    assert np.ptp(load_scene(path, unit="m").points[:, 0]) == 300


def test_outliers_do_not_make_a_room_too_large(tmp_path):
    points = np.concatenate([sample_points(POINTS, FACES, 30_000), [[700.0, 0, 0], [0, -650, 1]]])
    path = write_scan(tmp_path, points, np.empty((0, 3), int), np.zeros(points.shape, int))
    assert load_scene(path).bounds[1, 0] == pytest.approx(6, abs=0.1)


def test_feet_and_clouds_on_their_side_are_suspected(tmp_path):
    (feet,) = [n for n in load_scene(write_scan(tmp_path, POINTS / 0.3048)).notes if "feet" in n]
    assert "8.9 m" in feet
    cloud = sample_points(POINTS, FACES, 30_000) @ upright_turn("y")
    path = write_scan(tmp_path, cloud, np.empty((0, 3), int), np.zeros(cloud.shape, int))
    (side,) = [n for n in load_scene(path).notes if "--up" in n]
    assert all(part in side for part in ("2.7 m along y", "4.0 m along z", "--up y"))


def test_assumed_axes_and_units_are_recorded(tmp_path):
    path = write_scan(tmp_path, POINTS)
    scene = load_scene(path)
    assert scene.frame.assumed == ("up", "unit")
    assert "(assumed z up and metres; not specified in the file)" in scene.description[0]
    assert load_scene(path, up="z").frame.description.startswith("z up; assumed metres")
    assert load_scene(path, unit="m").frame.description.startswith("metres; assumed z up")
    assert load_scene(path, up="z", unit="m").frame.description == "z up, metres"


def test_missing_scannet_alignment_is_noted(tmp_path):
    path = write_scan(tmp_path, POINTS, name="scene0011_00_vh_clean_2.ply")
    assert any("scene0011_00.txt" in note for note in load_scene(path).notes)
    path.with_name("scene0011_00.txt").write_text("axisAlignment = 1 0 0 0 0 1 0 0 0 0 1 0 0 0 0 1")
    assert not any("scene0011_00.txt" in note for note in load_scene(path).notes)


def test_a_run_uses_its_up_and_unit_options(tmp_path):
    walls = joined((POINTS, FACES), rectangle((0.5, 0.5, 0.4), (0.9, 0.9, 0.4)))
    points = walls[0] @ upright_turn("y") / METRES["mm"]
    path = write_scan(tmp_path, points, walls[1], np.full(points.shape, 90))
    options = {"engine": "scripted", "output": tmp_path / "runs", "max_turns": 1}
    opened = render_agent.open_scene(path, up="y", unit="mm")
    dialogue = render_agent.ask(
        opened, "How many beds?", **options
    )  # uses the options of open_scene
    assert dialogue.error is None
    (record,) = (tmp_path / "runs").glob("*/config.json")
    saved = json.loads(record.read_text())["config"]
    assert (saved["up"], saved["unit"]) == ("y", "mm")
    x, y, z = dialogue.turns[0].camera_before.position
    assert all(0 < value < end for value, end in zip((x, y, z), (6, 4, 2.7), strict=True))
    assert "--unit" in render_agent.ask(path, "How many beds?", **options).error


HALL, HALL_FACES = joined(
    block((0, 0, 0), (8, 5, 2.6)), block((1, 1, 0), (2, 2, 0.75)), block((4, 3, 0), (6, 4, 0.5))
)
FORMATS = ("scan.obj", "scan.glb", "scan.gltf", "scan.stl", "scan.off", "scan.ply")


def write_mesh(folder, name, up, points=HALL, faces=HALL_FACES):
    path = folder / name
    mesh = trimesh.Trimesh(points @ upright_turn(up), faces, process=False)
    if path.suffix == ".gltf":
        for file, data in trimesh.exchange.gltf.export_gltf(mesh).items():
            (folder / file).write_bytes(data)
        (folder / "model.gltf").rename(path)
    else:
        mesh.export(path)
    return path


@pytest.mark.parametrize("up", ["y", "z"])
@pytest.mark.parametrize("name", FORMATS)
def test_hall_is_upright_whatever_axis_its_exporter_uses(tmp_path, name, up):
    """The note names the axis that was chosen, the usual one, and the option, and only if they differ."""
    path = write_mesh(tmp_path, name, up)
    usual = "y" if name.startswith(("scan.o", "scan.g")) and name != "scan.off" else "z"
    scene = load_scene(path)
    assert np.ptp(scene.points, axis=0) == pytest.approx((8, 5, 2.6), abs=1e-4)
    assert scene.frame.up == up
    notes = [note for note in scene.notes if "--up" in note]
    assert len(notes) == (up != usual)
    assert all(f"assumed {up} up" in note and f"--up {usual}" in note for note in notes)
    other = load_scene(path, up="yz".replace(up, ""))
    assert np.ptp(other.points, axis=0) == pytest.approx((8, 2.6, 5), abs=1e-4)
    assert not any("--up" in note for note in other.notes)


@pytest.mark.parametrize(
    "size", [(5, 4, 2.7), (3, 3, 3), (20, 2.2, 3), (6, 5, 5.5), (12, 9, 7), (1.5, 1.5, 9)]
)
@pytest.mark.parametrize("name", ["scan.glb", "scan.ply"])
def test_usual_axis_is_kept_unless_only_the_other_one_has_a_floor(tmp_path, name, size):
    points, faces = block((0, 0, 0), size)
    scene = load_scene(
        write_mesh(tmp_path, name, "y" if name == "scan.glb" else "z", points, faces)
    )
    assert np.ptp(scene.points, axis=0) == pytest.approx(size, abs=1e-4)
    assert not any("assumed" in note for note in scene.notes)


def test_ambiguous_side_is_only_suspected(tmp_path):
    """Without a floor, nothing but the size tells that the scan may be lying on its side."""
    walls = joined(rectangle((0, 0, 0), (6, 0, 2.7)), rectangle((0, 4, 0), (6, 4, 2.7)))
    scene = load_scene(write_mesh(tmp_path, "scan.obj", "z", *walls))
    assert scene.frame.up == "y"
    (note,) = [note for note in scene.notes if "--up" in note]
    assert all(part in note for part in ("2.7 m along z", "4.0 m along y", "--up z"))


def test_specified_up_axis_is_used_whatever_the_floor(tmp_path):
    path = write_mesh(tmp_path, "scan.ply", "y")
    path.write_bytes(
        path.read_bytes().replace(b"\nelement", b"\ncomment vertical axis: z\nelement", 1)
    )
    assert load_scene(path).frame.up == "z"


@pytest.mark.parametrize("name", ["matterpak_z_up.obj", "z_up.glb"])
def test_public_rooms_with_z_up(name):
    scene = load_scene(test_data("..", "cases", name))
    assert np.ptp(scene.points, axis=0) == pytest.approx((8, 5, 2.6), abs=1e-4)
