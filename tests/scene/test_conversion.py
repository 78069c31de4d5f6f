"""Scans made of others: a mesh as a splat and as a cloud looks like the mesh, and says that it is a conversion."""

import numpy as np
import pytest
from click.testing import CliRunner
from conftest import test_data
from factories.scans import as_scene, mesh_ply
from factories.scenes import room
from factories.splat_reference import psnr
from factories.splats import original_ply, some_splat

from render_agent.cli.main import cli
from render_agent.errors import SceneError, UsageError
from render_agent.geometry.camera import Camera
from render_agent.render.rasteriser.renderer import Rasteriser
from render_agent.scene import load_scene
from render_agent.scene.conversion import as_cloud, as_splat, convert
from render_agent.scene.model import Scene
from render_agent.scene.texture import Material, Texture


@pytest.fixture(scope="module")
def mesh(tmp_path_factory):
    """A room with boxes, as a file."""
    points, colours, faces = room()
    path = tmp_path_factory.mktemp("scans") / "room.ply"
    path.write_bytes(mesh_ply(points, faces, colours))
    return path


def converted(*words):
    return CliRunner().invoke(cli, ["convert", *map(str, words)])


@pytest.mark.parametrize(("kind", "least"), [("mesh", 99), ("cloud", 16), ("splat", 20)])
def test_what_is_made_of_a_mesh_looks_like_it(mesh, tmp_path, kind, least):
    output = tmp_path / f"{kind}.ply"
    done = converted(mesh, output, "--to", kind, "--samples", 150_000)
    assert done.exit_code == 0, done.output
    assert "a conversion" in done.output
    assert b"comment a conversion" in output.read_bytes()[:400]
    before, after = load_scene(mesh), load_scene(output)
    assert (after.gaussians is None, after.faces is None) == (kind != "splat", kind != "mesh")
    assert after.bounds == pytest.approx(before.bounds, abs=0.06)
    assert (after.floor, after.ceiling) == pytest.approx((before.floor, before.ceiling), abs=0.02)
    renderer = Rasteriser(threads=2)
    for camera in (Camera((1.0, 1.0, 1.5), 40, -20), Camera((2.5, 3.5, 1.2), -90, -10)):
        one, other = (renderer.draw(scene, camera, 160, 120) for scene in (before, after))
        assert psnr(one.colours, other.colours) >= least
        assert np.median(np.abs(one.depth - other.depth)) < (0.05 if kind == "cloud" else 0.01)
        assert np.isfinite(other.depth).mean() > 0.999
    renderer.close()


def test_a_splat_becomes_a_cloud_of_what_is_solid(tmp_path):
    splat = some_splat(400)
    (path := tmp_path / "splat.ply").write_bytes(original_ply(splat, comment="up z"))
    done = converted(path, tmp_path / "cloud.ply", "--to", "cloud")
    assert done.exit_code == 0, done.output
    cloud, solid = load_scene(tmp_path / "cloud.ply"), splat.gaussians.opacities > 0.5
    assert cloud.points == pytest.approx(splat.points[solid])
    assert (cloud.colours == splat.colours[solid]).all()
    assert cloud.gaussians is None


def test_nothing_becomes_a_mesh_but_a_mesh(tmp_path, mesh):
    splat = some_splat(50)
    for scene in (splat, as_cloud(load_scene(mesh), 1000)):
        with pytest.raises(SceneError, match="no faces to make this of"):
            convert(scene, "mesh")
        with pytest.raises(SceneError, match="no faces to make this of"):
            convert(scene, "mesh" if scene.gaussians else "splat")


def test_nothing_is_written_over_what_is_there(mesh, tmp_path):
    (there := tmp_path / "there.ply").write_text("mine")
    done = converted(mesh, there, "--to", "cloud")
    assert isinstance(done.exception, UsageError)
    assert there.read_text() == "mine"
    done = converted(mesh, tmp_path / "room.glb", "--to", "mesh")
    assert isinstance(done.exception, UsageError)


def test_pictures_on_a_mesh_are_sampled():
    """A square of which the left half is red and the right half is blue, in its picture alone."""
    square = np.float32([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]])
    plain = as_scene(square, [[0, 1, 2], [0, 2, 3]])
    picture = np.zeros((4, 8, 4), np.uint8)
    picture[:, :4], picture[:, 4:] = (200, 10, 10, 255), (10, 10, 200, 255)
    uv = np.column_stack([square[:, 0], 1 - square[:, 1]])
    texture = Texture(uv, np.zeros(2, np.int32), (Material(picture),))
    scene = Scene(
        "square", square, plain.colours, plain.faces, 0.0, 1.0, plain.bounds, texture=texture
    )
    splat = as_splat(scene, 2000)
    left = splat.points[:, 0] < 0.5
    assert np.abs(splat.colours[left].astype(int) - (200, 10, 10)).max() <= 1
    assert np.abs(splat.colours[~left].astype(int) - (10, 10, 200)).max() <= 1
    assert left.mean() == pytest.approx(0.5, abs=0.02)


def test_a_capture_is_converted(tmp_path):
    done = converted(
        test_data("splats", "guitar.compressed.ply"), tmp_path / "c.ply", "--to", "cloud"
    )
    assert done.exit_code == 0, done.output
    assert 10_000 < len(load_scene(tmp_path / "c.ply").points) < 90_854
