"""ScanNet's axis alignment: read from the text file next to a mesh and applied to the mesh."""

import numpy as np
import pytest
from factories.scans import block, mesh_ply, room

from render_agent.errors import SceneError
from render_agent.scans.formats.axis_alignment import alignment_file, read_alignment
from render_agent.scans.formats.load import load_scene

TURN = np.radians(33.0)
MATRIX = np.array([
    [np.cos(TURN), -np.sin(TURN), 0, -1.5],
    [np.sin(TURN), np.cos(TURN), 0, 2.25],
    [0, 0, 1, -0.125],
    [0, 0, 0, 1],
])  # fmt: skip


def alignment_text(matrix):
    numbers = " ".join(f"{value:.6f}" for value in np.asarray(matrix).ravel())
    return f"appVersionId = v1.1\naxisAlignment = {numbers} \ncolorHeight = 968\n"


def write_scan(folder, points, faces, colours, text=None):
    """Write a mesh with ScanNet's folder layout and file name; return its path."""
    scan = folder / "scans/scene0011_00/scene0011_00_vh_clean_2.ply"
    scan.parent.mkdir(parents=True, exist_ok=True)
    scan.write_bytes(mesh_ply(points, faces, colours))
    if text is not None:
        scan.with_name("scene0011_00.txt").write_text(text)
    return scan


def unaligned(points):
    """Return points in the frame of a file whose alignment is MATRIX."""
    return (points - MATRIX[:3, 3]) @ MATRIX[:3, :3]


@pytest.fixture
def furnished():
    points, faces = room(block((1.0, 1.0, 0.0), (2.0, 1.5, 0.75)))
    return points, faces, np.random.default_rng(0).integers(0, 255, points.shape)


def test_alignment_restores_the_aligned_frame(tmp_path, furnished):
    points, faces, colours = furnished
    plain = load_scene(write_scan(tmp_path / "plain", points, faces, colours))
    scan = write_scan(
        tmp_path / "rotated", unaligned(points), faces, colours, alignment_text(MATRIX)
    )
    aligned = load_scene(scan)
    np.testing.assert_allclose(aligned.points, plain.points, atol=1e-4)
    np.testing.assert_allclose(aligned.bounds, plain.bounds, atol=1e-4)
    np.testing.assert_array_equal(aligned.colours, plain.colours)
    np.testing.assert_array_equal(aligned.faces, plain.faces)
    assert (aligned.floor, aligned.ceiling) == pytest.approx((plain.floor, plain.ceiling), abs=1e-3)
    assert aligned.source == scan


@pytest.mark.parametrize("text", [None, "", "sceneType = Office\n", "# axisAlignment = 1 2 3\n"])
def test_scans_without_alignment_are_unchanged(tmp_path, furnished, text):
    points, faces, colours = furnished
    scene = load_scene(write_scan(tmp_path, points, faces, colours, text))
    np.testing.assert_allclose(scene.points, points, atol=1e-6)


def test_only_scannet_meshes_are_aligned(tmp_path, furnished):
    points, faces, colours = furnished
    scan = write_scan(tmp_path, points, faces, colours, alignment_text(MATRIX))
    assert alignment_file(scan) == scan.with_name("scene0011_00.txt")
    assert alignment_file(scan.with_name("scene0011_00_vh_clean.ply")) is not None
    renamed = scan.rename(scan.with_name("scene0011_00.ply"))
    assert alignment_file(renamed) is None
    np.testing.assert_allclose(load_scene(renamed).points, points, atol=1e-6)


@pytest.mark.parametrize(
    "text",
    [
        "axisAlignment = 1 0 0\n",
        "axisAlignment =\n",
        "axisAlignment = one 0 0 0 0 1 0 0 0 0 1 0 0 0 0 1\n",
        alignment_text(2 * np.eye(4)),
        alignment_text(np.diag([1, 1, -1, 1])),
        alignment_text(np.diag([np.nan, 1, 1, 1])),
        alignment_text(np.diag([1e308, 1e308, 1, 1])),
        alignment_text(MATRIX + np.diag([0, 0, 0, 1])),
    ],
)
def test_invalid_alignment_is_an_error(tmp_path, furnished, text):
    points, faces, colours = furnished
    scan = write_scan(tmp_path, points, faces, colours, text)
    with pytest.raises(SceneError, match=r"axisAlignment.*scene0011_00\.txt") as error:
        load_scene(scan)
    assert str(scan) in str(error.value)
    with pytest.raises(SceneError):
        read_alignment(scan)


def test_alignment_is_found_in_arbitrary_bytes(tmp_path):
    scan = tmp_path / "s_vh_clean_2.ply"
    scan.with_name("s.txt").write_bytes(
        b"\xff\xfe\r\n  axisAlignment=" + b"1 0 0 0 0 1 0 0 0 0 1 3 0 0 0 1\r\n"
    )
    np.testing.assert_array_equal(read_alignment(scan)[:3, 3], [0, 0, 3])
