"""The up axis and unit of scan files, specified or assumed."""

import json
import re

import numpy as np
import pytest
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


def test_feet_and_scans_on_their_side_are_suspected(tmp_path):
    (feet,) = [n for n in load_scene(write_scan(tmp_path, POINTS / 0.3048)).notes if "feet" in n]
    assert "8.9 m" in feet
    sideways = POINTS @ upright_turn("y")
    (side,) = [n for n in load_scene(write_scan(tmp_path, sideways)).notes if "--up" in n]
    assert all(part in side for part in ("2.7 m", "4.0 m", "--up y"))


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
