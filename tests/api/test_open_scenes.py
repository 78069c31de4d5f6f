"""Opened scans render the same views as a run, from files and from memory."""

import io
from dataclasses import replace

import numpy as np
import pytest
import trimesh
from factories.runs import NullObserver, make_config, make_questions
from factories.scenes import room, write_ply
from factories.splats import random_splat
from PIL import Image

import render_agent
from render_agent import Camera
from render_agent.api.scenes import arrays, scan_file
from render_agent.errors import RenderAgentError, SceneError
from render_agent.runs.runner import start_run
from render_agent.scans.formats.load import load_scene


@pytest.fixture
def scan(tmp_path):
    return write_ply(tmp_path / "room.ply", *room())


def test_views_match_those_of_a_run(tmp_path):
    questions = make_questions(tmp_path, 1)
    run = start_run(make_config(tmp_path, questions, max_turns=1, start="best"))
    run.go(NullObserver())
    run.close()
    top, ego = render_agent.load_run(run.path).dialogue(0).views
    opened = render_agent.open_scene(tmp_path / "room.ply", size=(96, 72))
    camera = opened.start()
    assert camera == ego.camera
    assert (opened.view().pixels == ego.pixels).all()
    assert opened.view(camera).png() == ego.png()
    assert (opened.map([camera]).pixels == top.pixels).all()
    assert opened.map([camera]).camera == top.camera


def test_depth_is_metric_and_all_forms_of_a_view_are_equal(scan, tmp_path):
    with render_agent.open_scene(scan, size=(200, 150)) as opened:
        image = opened.view(Camera((1.0, 2.0, 1.25), yaw=0.0))
        assert image.depth[75, 100] == pytest.approx(4.0, abs=1e-3)
        saved = image.save(tmp_path / "view.png")
        assert (np.asarray(Image.open(saved)) == image.pixels).all()
        displayed = Image.open(io.BytesIO(image._repr_png_()))
        assert (np.asarray(displayed) == np.asarray(image)).all()
        assert (np.asarray(image.image) == image.pixels).all()
        assert np.asarray(image, float).dtype == float
        assert opened.around().kind == "around"
        assert opened.around().depth is None
        assert opened.map().kind == "top"
        assert opened.space.clearance((2.5, 2.0, 1.25)) == pytest.approx(1.25, abs=0.02)


def in_memory(kind):
    """Return the room as a library object, and its arrays."""
    import open3d

    points, colours, faces = room()
    if kind == "trimesh":
        generated = trimesh.Trimesh(points, faces, vertex_colors=colours, process=False)
    elif kind == "trimesh scene":
        generated = trimesh.Scene(
            trimesh.Trimesh(points, faces, vertex_colors=colours, process=False)
        )
    elif kind == "trimesh cloud":
        generated, faces = trimesh.PointCloud(points, colours), None
    elif kind == "open3d":
        generated = open3d.geometry.TriangleMesh(
            open3d.utility.Vector3dVector(points), open3d.utility.Vector3iVector(faces)
        )
        generated.vertex_colors = open3d.utility.Vector3dVector(colours / 255)
    elif kind == "open3d cloud":
        generated, faces = open3d.geometry.PointCloud(open3d.utility.Vector3dVector(points)), None
        generated.colors = open3d.utility.Vector3dVector(colours / 255)
    elif kind == "cloud of arrays":
        generated, faces = (points, colours / 255.0), None
    elif kind == "cloud of a text file":
        generated, faces = (points, colours.astype(float)), None
    else:
        generated = (points.tolist(), colours, faces)
    return generated, (points, colours, faces)


KINDS = (
    "trimesh",
    "trimesh scene",
    "trimesh cloud",
    "open3d",
    "open3d cloud",
    "arrays",
    "cloud of arrays",
    "cloud of a text file",
)


@pytest.mark.parametrize("kind", KINDS)
def test_scan_in_memory_equals_its_file(kind, tmp_path):
    generated, (points, colours, faces) = in_memory(kind)
    scene = render_agent.open_scene(generated).scene
    assert np.allclose(scene.points, points, atol=1e-6)
    assert (scene.colours == colours).all()
    assert (scene.faces is None) == (faces is None)
    assert faces is None or (scene.faces == faces).all()
    assert scene.source is None
    file = scan_file(generated, tmp_path)
    assert scan_file(generated, tmp_path) == file
    assert np.allclose(load_scene(file).points, points, atol=1e-6)
    assert [entry.name for entry in tmp_path.iterdir()] == [file.name]


def test_invalid_scans_are_refused(tmp_path):
    points, colours, faces = room()
    for invalid, reason in (
        (3, "int"),
        ((points, colours[:-1]), "colours"),
        ((points, 256 * colours.astype(np.uint16)), "colours .*255"),
        ((points[:, :2], colours), "points"),
        (trimesh.Scene(), "surface"),
        ((points, colours, faces.ravel()), r"faces .*\(m, 3\)"),
        ((points, colours, faces + len(points)), "vertex"),
    ):
        with pytest.raises(SceneError, match=reason):
            render_agent.open_scene(invalid)
    with pytest.raises(RenderAgentError, match=r"gone\.ply"):
        render_agent.open_scene(tmp_path / "gone.ply")


def test_scan_without_colours_is_shaded_like_its_file(tmp_path):
    import open3d

    points, _, faces = room()
    expected = load_scene(write_ply(tmp_path / "colourless.ply", points, faces=faces)).colours
    mesh = open3d.geometry.TriangleMesh(
        open3d.utility.Vector3dVector(points), open3d.utility.Vector3iVector(faces)
    )
    for generated in (mesh, trimesh.Trimesh(points, faces, process=False), (points, None, faces)):
        assert arrays(generated)[1] is None
        assert (render_agent.open_scene(generated).scene.colours == expected).all()


def test_bundled_rooms_by_name():
    rooms = render_agent.bundled_rooms()
    assert len(rooms) == 8
    assert all(path.is_file() and path.stem == name for name, path in rooms.items())


@pytest.mark.parametrize("kind", ["splat", "cloud", "mesh"])
def test_views_without_surface_are_empty(scan, kind):
    scene = {
        "splat": random_splat(),
        "cloud": replace(load_scene(scan), faces=None),
        "mesh": load_scene(scan),
    }[kind]
    with render_agent.open_scene(scene, size=(64, 48)) as opened:
        outside = Camera((-50.0, 0.0, 1.0), yaw=180.0)
        view = opened.view(outside)
        assert np.isinf(view.depth).all()
        assert len(np.unique(view.pixels.reshape(-1, 3), axis=0)) == 1
        assert view.png()
        assert opened.around(outside).png()
        assert opened.map([opened.start(), outside]).png()
