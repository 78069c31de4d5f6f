"""Tests of Rerun recordings, read back with rerun: scene, camera path, views and replies."""

import shutil
from collections import defaultdict
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from factories import TREE
from factories.exports import export
from factories.runs import SMALL, finish_run

from render_agent.errors import UsageError
from render_agent.options import RunConfig
from render_agent.report.export.rerun_recording import write_rerun
from render_agent.runs.read import RunData
from render_agent.runs.runner import start_run
from render_agent.scans.cache import SceneCache
from render_agent.tasks.ground_truth import load_facts, place_facts
from render_agent.tasks.question_types import named_categories

pytestmark = pytest.mark.skipif(
    find_spec("rerun") is None, reason="the extra rerun is not installed"
)

LISTS = (pa.ListType, pa.FixedSizeListType)


def play(folder: Path, **options):
    """Run some questions about a bundled room and return the run folder."""
    defaults = {"batch": True, "benchmark": "rooms", "output": str(folder / "runs"), "max_turns": 3}
    run = start_run(RunConfig(**defaults | SMALL | {"scene": ("room01",), "limit": 3} | options))
    finish_run(run)
    return run.path


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return play(tmp_path_factory.mktemp("run"), type=("object_rel_direction_hard",), limit=2)


def read_recording(file: Path) -> dict[str, dict[str, list]]:
    """Return the values of every component by entity, with the turns and views."""
    from rerun import chunk

    reader = chunk.RrdReader(file)
    assert len(reader.recordings()) == 1
    assert len(reader.blueprints()) == 1
    components: dict[str, dict[str, list]] = defaultdict(lambda: defaultdict(list))
    for part in reader.stream():
        batch = part.to_record_batch()
        for name in batch.schema.names:
            column = batch.column(name)
            if name.startswith("Mesh3D:"):  # flat: too many numbers for Python lists
                while hasattr(column, "flatten") and isinstance(column.type, LISTS):
                    column = column.flatten()
                components[part.entity_path][name].append(column.to_numpy())
            else:
                components[part.entity_path][name] += column.to_pylist()
    return components


def test_recording_has_scene_path_views_and_replies(run, tmp_path):
    states = RunData(run).states
    state = states[0]
    export(run, "--format", "rerun", "--question", state.id, "--to", tmp_path / "a.rrd")
    components = read_recording(tmp_path / "a.rrd")
    scene = SceneCache().get(state.question)
    (points,) = components["/world/scene"]["Mesh3D:vertex_positions"]
    (faces,) = components["/world/scene"]["Mesh3D:triangle_indices"]
    (colours,) = components["/world/scene"]["Mesh3D:vertex_colors"]
    assert np.array_equal(points.reshape(-1, 3), scene.points)
    assert np.array_equal(faces.reshape(-1, 3), scene.faces)
    packed = colours[:, None] >> np.array([24, 16, 8], np.uint32) & 255
    assert np.array_equal(packed, scene.colours)
    assert [texts[0] for texts in components["/replies"]["TextLog:text"]] == [
        turn.reply for turn in state.turns
    ]
    assert components["/replies"]["turn"] == [turn.number for turn in state.turns] == [0, 1, 2]
    way = components["/world/path"]["LineStrips3D:strips"][-1][0]
    assert np.allclose(way, [turn.camera_before.position for turn in state.turns], atol=1e-6)
    ego = [view for view in state.views if view.kind == "ego"]
    images = [
        bytes(blobs[0]) for blobs in components["/world/camera"]["EncodedImage:blob"] if blobs
    ]
    assert images == [(run / view.file).read_bytes() for view in ego]
    moved = [entry[0] for entry in components["/world/camera"]["Transform3D:translation"] if entry]
    assert np.allclose(moved, [view.camera.position for view in ego], atol=1e-6)
    lens = np.array(components["/world/camera"]["Pinhole:image_from_camera"][0][0]).reshape(3, 3).T
    assert np.allclose(lens, ego[0].camera.intrinsics(96, 72))
    tops = [view for view in state.views if view.kind == "top"]
    assert len(components["/views/top"]["EncodedImage:blob"]) == len(tops) > 0


def test_named_boxes_have_their_pose(run, tmp_path):
    export(run, "--format", "rerun", "--to", tmp_path / "all")
    for state in RunData(run).states:
        components = read_recording(tmp_path / "all" / f"{state.id}.rrd")
        facts = load_facts([state.question])[state.question.scene]
        boxes = place_facts(facts, SceneCache().get(state.question)).boxes
        categories = named_categories(state.question)
        assert len(categories) == 3
        expected = {
            f"/world/boxes/{label.replace(' ', chr(92) + ' ')}/{number}": box
            for label in categories
            for number, box in enumerate(boxes[label])
        }
        assert {name for name in components if name.startswith("/world/boxes/")} == set(expected)
        for name, box in expected.items():
            (half,) = components[name]["Boxes3D:half_sizes"]
            (centre,) = components[name]["Transform3D:translation"]
            (axes,) = components[name]["Transform3D:mat3x3"]
            assert np.allclose(half[0], box.size / 2, atol=1e-6)
            assert np.allclose(centre[0], box.centre, atol=1e-6)
            # Rerun's matrices are column-major: one column per axis of the box
            assert np.allclose(np.array(axes[0]).reshape(3, 3), box.axes, atol=1e-6)


def test_recording_without_the_scan(tmp_path):
    for name in ("room01.ply", "room01.json", "questions.jsonl"):
        shutil.copy(TREE / "scenes" / name, tmp_path / name)
    run = play(tmp_path, benchmark=str(tmp_path / "questions.jsonl"), limit=1)
    (tmp_path / "room01.ply").unlink()
    export(run, "--format", "rerun", "--to", tmp_path / "a.rrd")
    components = read_recording(tmp_path / "a.rrd")
    assert "/world/scene" not in components
    assert len(components["/replies"]["turn"]) == 3


def test_one_recording_per_question(run, tmp_path):
    with pytest.raises(UsageError, match="2 questions"):
        export(run, "--format", "rerun", "--to", tmp_path / "a.rrd")
    export(run, "--format", "rerun", "--to", tmp_path / "all")
    with pytest.raises(UsageError, match="--force"):
        export(run, "--format", "rerun", "--to", tmp_path / "all")
    (tmp_path / "all" / "mine").write_text("kept")
    export(run, "--format", "rerun", "--force", "--to", tmp_path / "all")
    assert (tmp_path / "all" / "mine").read_text() == "kept"
    assert len(list((tmp_path / "all").glob("*.rrd"))) == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="requires /dev/full")
def test_full_disk_raises_instead_of_blocking(run):
    state = RunData(run).states[0]
    with pytest.raises(OSError, match="No space left on device"):
        write_rerun("run", state, run, None, None, (96, 72), Path("/dev/full"))
