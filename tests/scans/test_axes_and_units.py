"""Which axis of a file points up, what its unit is, and what is said where neither is told."""

import json
import re

import numpy as np
import pytest
from factories.scans import block, joined, mesh_ply, rectangle, room, sampled

import render_agent
from render_agent.errors import SceneError
from render_agent.scans.file_frame import AXES, METRES
from render_agent.scans.formats.cleaning import upright_turn
from render_agent.scans.formats.load import load_scene

POINTS, FACES = room(block((1, 1, 0), (2, 2, 0.75)))
COLOURS = np.random.default_rng(7).integers(0, 256, POINTS.shape)


def laid(folder, points, faces=FACES, colours=COLOURS, name="scan.ply"):
    path = folder / name
    path.write_bytes(mesh_ply(points, faces, colours))
    return path


@pytest.mark.parametrize("up", AXES)
def test_whatever_axis_points_up_the_scene_stands_upright_and_is_not_mirrored(tmp_path, up):
    turn = upright_turn(up)
    assert np.linalg.det(turn) == 1
    scene = load_scene(laid(tmp_path, POINTS @ turn), up=up)  # its transpose undoes a turn
    assert np.array_equal(scene.points, POINTS.astype(np.float32))
    assert (
        turn[2] @ {"x": (1, 0, 0), "y": (0, 1, 0), "z": (0, 0, 1)}[up[-1]] == (1, -1)[len(up) - 1]
    )
    assert (scene.frame.up, scene.frame.asked) == (up, (up, "auto"))


@pytest.mark.parametrize("unit", METRES)
def test_a_unit_that_is_told_gives_metres(tmp_path, unit):
    scene = load_scene(laid(tmp_path, POINTS / METRES[unit]), unit=unit)
    assert np.allclose(scene.points, POINTS, atol=1e-5)
    assert not any("unit" in note for note in scene.notes)


@pytest.mark.parametrize(
    ("unit", "size"), [("cm", "600 x 400 x 270"), ("mm", "6,000 x 4,000 x 2,700"), ("in", "236")]
)
def test_a_room_in_another_unit_is_refused_with_what_to_do(tmp_path, unit, size):
    path = laid(tmp_path, POINTS / METRES[unit])
    with pytest.raises(SceneError, match=f"it is {re.escape(size)}.*--unit {unit} ") as refused:
        load_scene(path)
    assert "(6 x 4 x 2.7 m)" in str(refused.value)


def test_a_room_that_is_too_small_is_refused_unless_it_is_meant(tmp_path):
    path = laid(tmp_path, POINTS * 0.05)
    with pytest.raises(SceneError, match=r"0\.3 x 0\.2 x 0\.135 m"):
        load_scene(path)
    assert load_scene(path, unit="m").ceiling == pytest.approx(0.135)
    with pytest.raises(SceneError, match="metres"):
        load_scene(laid(tmp_path, POINTS * 0.001))


@pytest.mark.parametrize(("unit", "size"), [("mm", "0.006 x 0.004 x 0.0027"), ("cm", "0.06 x")])
def test_a_room_in_metres_is_not_believed_to_be_as_small_as_a_wrong_unit_makes_it(
    tmp_path, unit, size
):
    with pytest.raises(SceneError, match=f"{re.escape(size)}.*--unit m ") as refused:
        load_scene(laid(tmp_path, POINTS), unit=unit)
    assert "(6 x 4 x 2.7 m)" in str(refused.value)
    with pytest.raises(SceneError, match="--unit m"):
        load_scene(laid(tmp_path, POINTS * [3, 3, 1]), unit=unit)


def test_points_without_a_place_are_counted(tmp_path):
    points = POINTS.copy()
    points[0] = np.nan
    scene = load_scene(laid(tmp_path, points))
    assert any(note.startswith(f"1 of its {len(POINTS)} points") for note in scene.notes)


def test_a_hall_is_read_where_metres_are_meant(tmp_path):
    path = laid(tmp_path, POINTS * [50, 50, 4])
    with pytest.raises(SceneError, match="--unit m "):
        load_scene(path)
    assert np.ptp(load_scene(path, unit="m").points[:, 0]) == 300


def test_flying_points_make_no_room_too_large(tmp_path):
    points = np.concatenate([sampled(POINTS, FACES, 30_000), [[700.0, 0, 0], [0, -650, 1]]])
    path = laid(tmp_path, points, np.empty((0, 3), int), np.zeros(points.shape, int))
    assert load_scene(path).bounds[1, 0] == pytest.approx(6, abs=0.1)


def test_feet_and_a_scan_on_its_side_are_suspected(tmp_path):
    (feet,) = [n for n in load_scene(laid(tmp_path, POINTS / 0.3048)).notes if "feet" in n]
    assert "8.9 m above its floor" in feet
    lying = POINTS @ upright_turn("y")
    (side,) = [n for n in load_scene(laid(tmp_path, lying)).notes if "--up" in n]
    assert all(part in side for part in ("2.7 m", "4.0 m", "--up y"))


def test_assumed_axes_and_units_are_noted(tmp_path):
    path = laid(tmp_path, POINTS)
    (note,) = load_scene(path).notes
    assert "(z)" in note
    assert "(metres)" in note
    assert load_scene(path, up="z", unit="m").notes == ()
    assert "(metres)" in load_scene(path, up="z").notes[0]


def test_a_scannet_mesh_without_its_alignment_says_so(tmp_path):
    path = laid(tmp_path, POINTS, name="scene0011_00_vh_clean_2.ply")
    assert any("put scene0011_00.txt beside it" in note for note in load_scene(path).notes)
    path.with_name("scene0011_00.txt").write_text("axisAlignment = 1 0 0 0 0 1 0 0 0 0 1 0 0 0 0 1")
    assert not any("scene0011_00.txt" in note for note in load_scene(path).notes)


def test_a_run_reads_scans_as_its_options_say(tmp_path):
    walls = joined((POINTS, FACES), rectangle((0.5, 0.5, 0.4), (0.9, 0.9, 0.4)))
    points = walls[0] @ upright_turn("y") / METRES["mm"]
    path = laid(tmp_path, points, walls[1], np.full(points.shape, 90))
    asked = {"engine": "scripted", "output": tmp_path / "runs", "max_turns": 1}
    opened = render_agent.open_scene(path, up="y", unit="mm")
    dialogue = render_agent.ask(opened, "How many beds?", **asked)  # it is read as it was opened
    assert dialogue.error is None
    (record,) = (tmp_path / "runs").glob("*/config.json")
    saved = json.loads(record.read_text())["config"]
    assert (saved["up"], saved["unit"]) == ("y", "mm")
    x, y, z = dialogue.turns[0].stood.position
    assert all(0 < value < end for value, end in zip((x, y, z), (6, 4, 2.7), strict=True))
    assert "--unit" in render_agent.ask(path, "How many beds?", **asked).error
