"""GLB, glTF, OBJ, STL and OFF, written by trimesh and by hand."""

import numpy as np
import pytest
import trimesh
from factories.scans import block, rectangle, room
from PIL import Image

from render_agent.errors import SceneError
from render_agent.scene import load_scene

POINTS, FACES = room(block((1, 1, 0), (2, 2, 0.75)))
COLOURS = np.random.default_rng(5).integers(0, 256, (len(POINTS), 3)).astype(np.uint8)
Y_UP = POINTS[:, [0, 2, 1]] * [1, 1, -1]
UP = {"glb": Y_UP, "obj": Y_UP, "stl": POINTS, "off": POINTS}


def written(tmp_path, suffix, points, colours=None):
    mesh = trimesh.Trimesh(points, FACES, process=False, vertex_colors=colours)
    path = tmp_path / f"scan.{suffix}"
    mesh.export(path)
    return path


@pytest.mark.parametrize("suffix", UP)
def test_every_format_stands_upright(tmp_path, suffix):
    scene = load_scene(written(tmp_path, suffix, UP[suffix]))
    assert np.allclose(scene.points[scene.faces], POINTS[FACES], atol=1e-5)
    assert (scene.floor, scene.ceiling) == pytest.approx((0, 2.7), abs=1e-4)
    assert scene.colours.shape == scene.points.shape


@pytest.mark.parametrize("suffix", ["glb", "obj"])
def test_vertex_colours(tmp_path, suffix):
    scene = load_scene(written(tmp_path, suffix, UP[suffix], COLOURS))
    assert np.abs(scene.colours[scene.faces].astype(int) - COLOURS[FACES]).max() <= 1


def test_a_texture_becomes_vertex_colours(tmp_path):
    points, faces = rectangle((0, 0, 0), (4, 3, 0))
    picture = Image.new("RGB", (64, 64))
    quarters = {
        (0, 0): (255, 0, 0),
        (32, 0): (0, 255, 0),
        (0, 32): (0, 0, 255),
        (32, 32): (255, 255, 0),
    }
    for corner, colour in quarters.items():
        picture.paste(colour, (*corner, corner[0] + 32, corner[1] + 32))
    uv = np.array([[0.1, 0.1], [0.9, 0.1], [0.9, 0.9], [0.1, 0.9]])  # v counts from the bottom
    material = trimesh.visual.material.PBRMaterial(baseColorTexture=picture)
    visual = trimesh.visual.TextureVisuals(uv=uv, material=material)
    path = tmp_path / "textured.glb"
    trimesh.Trimesh(points[:, [0, 2, 1]], faces, process=False, visual=visual).export(path)
    scene = load_scene(path)
    assert scene.colours.tolist() == [[0, 0, 255], [255, 255, 0], [0, 255, 0], [255, 0, 0]]


def test_parts_lie_where_their_nodes_put_them(tmp_path):
    part = trimesh.creation.box((1, 1, 1))
    scene = trimesh.Scene()
    for x in (0.0, 3.0):
        scene.add_geometry(part, transform=trimesh.transformations.translation_matrix((x, 2, 0)))
    path = tmp_path / "parts.glb"
    scene.export(path)
    loaded = load_scene(path)
    assert len(loaded.faces) == 24
    assert np.allclose(loaded.bounds, [[-0.5, -0.5, 1.5], [3.5, 0.5, 2.5]])


def test_a_ply_by_another_name_is_read_as_what_it_is(tmp_path):
    path = tmp_path / "scan.obj"
    path.write_bytes(trimesh.Trimesh(POINTS, FACES, process=False).export(file_type="ply"))
    assert np.allclose(load_scene(path).points, POINTS, atol=1e-5)


def test_a_file_without_surface_is_refused(tmp_path):
    path = tmp_path / "points.obj"
    path.write_text("v 0 0 0\nv 1 0 0\n# nothing\n")
    with pytest.raises(SceneError, match=r"points\.obj.*; copy or export it again"):
        load_scene(path)
