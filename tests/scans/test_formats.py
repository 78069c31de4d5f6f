"""GLB, glTF, OBJ, STL and OFF, written by trimesh and by these tests."""

import numpy as np
import pytest
import trimesh
from factories.scans import block, room

from render_agent.dialogue.question import Question
from render_agent.errors import SceneError
from render_agent.scans.formats.load import load_scene
from render_agent.tasks.ground_truth import facts_files, load_facts
from render_agent.tasks.scene_reader import read_scene

POINTS, FACES = room(block((1, 1, 0), (2, 2, 0.75)))
COLOURS = np.random.default_rng(5).integers(0, 256, (len(POINTS), 3)).astype(np.uint8)
Y_UP = POINTS[:, [0, 2, 1]] * [1, 1, -1]
UP = {"glb": Y_UP, "obj": Y_UP, "stl": POINTS, "off": POINTS}


def export(tmp_path, suffix, points, colours=None):
    mesh = trimesh.Trimesh(points, FACES, process=False, vertex_colors=colours)
    path = tmp_path / f"scan.{suffix}"
    mesh.export(path)
    return path


@pytest.mark.parametrize("suffix", UP)
def test_every_format_is_upright(tmp_path, suffix):
    scene = load_scene(export(tmp_path, suffix, UP[suffix]))
    assert np.allclose(scene.points[scene.faces], POINTS[FACES], atol=1e-5)
    assert (scene.floor, scene.ceiling) == pytest.approx((0, 2.7), abs=1e-4)
    assert scene.colours.shape == scene.points.shape


@pytest.mark.parametrize("suffix", ["glb", "obj"])
def test_vertex_colours_are_read(tmp_path, suffix):
    scene = load_scene(export(tmp_path, suffix, UP[suffix], COLOURS))
    assert np.abs(scene.colours[scene.faces].astype(int) - COLOURS[FACES]).max() <= 1


def test_parts_are_placed_by_their_nodes(tmp_path):
    part = trimesh.creation.box((1, 1, 1))
    scene = trimesh.Scene()
    for x in (0.0, 3.0):
        scene.add_geometry(part, transform=trimesh.transformations.translation_matrix((x, 2, 0)))
    path = tmp_path / "parts.glb"
    scene.export(path)
    loaded = load_scene(path)
    assert len(loaded.faces) == 24
    assert np.allclose(loaded.bounds, [[-0.5, -0.5, 1.5], [3.5, 0.5, 2.5]])


def test_format_is_detected_from_content(tmp_path):
    path = tmp_path / "scan.obj"
    path.write_bytes(trimesh.Trimesh(POINTS, FACES, process=False).export(file_type="ply"))
    assert np.allclose(load_scene(path).points, POINTS, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("points.obj", "v 0 0 0\nv 1 0 0\n# nothing\n"),
        ("empty.gltf", '{"asset": {"version": "2.0"}, "scenes": [{"nodes": []}], "scene": 0}'),
        ("empty.stl", "solid x\nendsolid x\n"),
    ],
)
def test_files_without_a_surface_are_rejected(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(SceneError, match=name):
        load_scene(path)


@pytest.mark.parametrize("content", ['{"app": "phone"}', "[1, 2]", "not JSON", ""])
def test_json_file_of_another_program_is_ignored_with_a_note(tmp_path, content):
    path = export(tmp_path, "ply", POINTS)
    path.with_suffix(".json").write_text(content)
    scene = read_scene(path, "s")
    assert any(path.with_suffix(".json").name in note for note in scene.notes)
    question = Question("1", "b", "d", "s", "t", "?", "text", scan=path)
    assert load_facts([question]) == {}
    assert facts_files([question]) == []
