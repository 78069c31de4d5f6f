"""The make-rooms command: loadable files, reproducible bytes, simulated scan defects."""

from collections import Counter

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.spatial import cKDTree

from render_agent.errors import SetupError
from render_agent.scans.formats.load import load_scene
from render_agent.tasks.boxes.room_ground_truth import read_ground_truth
from render_agent.tasks.rooms import load_rooms
from render_agent_lab.room_generator.command import make_rooms, make_rooms_command


def run(*arguments):
    return CliRunner().invoke(make_rooms_command, [str(argument) for argument in arguments])


@pytest.mark.slow
def test_command_is_reproducible(tmp_path):
    options = ("--count", 1, "--seed", 4, "--spacing", 0.3, "--as-scan", "--per-type", 1)
    for folder in ("one", "two"):
        result = run("--output", tmp_path / folder, *options)
        assert result.exit_code == 0, result.output
        assert result.output.startswith("1 home in ")
    names = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert names == ["questions.jsonl", "room00.json", "room00.ply"]
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


@pytest.mark.slow
def test_generated_rooms_load_with_their_questions(tmp_path):
    make_rooms(tmp_path, 2, 8, 1, 0.3)
    questions = load_rooms(tmp_path)
    assert max(Counter((q.scene, q.type) for q in questions).values()) == 1
    assert {question.scan for question in questions} == {
        (tmp_path / "room00.ply").resolve(),
        (tmp_path / "room01.ply").resolve(),
    }
    truth = read_ground_truth(tmp_path / "room00.json")
    scene = load_scene(tmp_path / "room00.ply", "room00")
    assert scene.faces is not None
    assert scene.faces.max() == len(scene.points) - 1
    assert scene.ceiling == pytest.approx(truth.height, abs=0.02)


@pytest.mark.slow
def test_scan_has_defects_but_the_same_ground_truth(tmp_path):
    make_rooms(tmp_path / "clean", 1, 8, 0, 0.15)
    make_rooms(tmp_path / "scan", 1, 8, 0, 0.15, as_scan=True)
    truths = [(tmp_path / name / "room00.json").read_bytes() for name in ("clean", "scan")]
    assert truths[0] == truths[1]
    clean, scan = (load_scene(tmp_path / name / "room00.ply", name) for name in ("clean", "scan"))
    assert 0.4 * area(clean) < area(scan) < 0.9 * area(clean)  # patches are missing
    distances = cKDTree(clean.points).query(scan.points)[0]
    assert 0.002 < np.median(distances) < 0.03
    assert np.quantile(distances, 0.95) < 0.09
    assert scan.floor == pytest.approx(clean.floor, abs=0.03)
    assert scan.ceiling == pytest.approx(clean.ceiling, abs=0.05)


def area(scene):
    a, b, c = (scene.points[scene.faces[:, corner]].astype(float) for corner in range(3))
    return np.linalg.norm(np.cross(b - a, c - a), axis=1).sum() / 2


@pytest.mark.parametrize("option", [("--count", 0), ("--seed", -1), ("--spacing", 9)])
def test_out_of_range_options_are_usage_errors(tmp_path, option):
    assert run("--output", tmp_path, *option).exit_code == 2


def test_unwritable_folder_raises_setup_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SetupError, match="rooms"):
        make_rooms(tmp_path / "file" / "rooms", 1, 1, 0, 0.3)
