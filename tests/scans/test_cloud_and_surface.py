"""Thinning and normals of point clouds; cutting meshes into pieces."""

import numpy as np
import pytest
from factories.scans import block, room, sample_points
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from render_agent.errors import SceneError
from render_agent.scans.formats import point_cloud as cloud
from render_agent.scans.formats.cleaning import Scan
from render_agent.scans.free_space.surface import areas_and_normals, bisect_edges, first_per_cell


def test_thinning_keeps_positions_and_colours():
    points = sample_points(*block((0, 0, 0), (2, 2, 2)), 50_000).astype(np.float32)
    red = points[:, 0] < 1
    colours = np.where(red[:, None], (200, 0, 0), (0, 0, 200)).astype(np.uint8)
    thin = cloud.thin_cloud(Scan(points, colours), max_points=5000)
    assert 1000 < len(thin.points) <= 5000
    assert thin.points.dtype == np.float32
    assert np.abs(np.abs(thin.points - 1).max(axis=1) - 1).max() < 0.05
    clear = np.abs(thin.points[:, 0] - 1) > 0.15
    expected = np.where(thin.points[clear, :1] < 1, (200, 0, 0), (0, 0, 200))
    assert np.array_equal(thin.colours[clear], expected)


def test_small_clouds_are_not_thinned():
    scan = Scan(np.zeros((10, 3), np.float32))
    assert cloud.thin_cloud(scan) is scan


@pytest.mark.parametrize("max_points", [300_000, 2000])
def test_normals_are_perpendicular_to_the_walls(monkeypatch, max_points):
    monkeypatch.setattr(cloud, "MAX_NORMALS", max_points)
    points = sample_points(*room(), 20_000).astype(np.float32)
    normals = cloud.cloud_normals(points)
    distances = np.abs(np.stack([points, [6, 4, 2.7] - points])).min(axis=0)
    inner = np.sort(distances, axis=1)[:, 1] > 0.5  # away from edges and corners
    axis = distances.argmin(axis=1)
    assert np.median(np.abs(normals[inner, axis[inner]])) > 0.999


def test_missing_open3d_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "open3d", None)
    with pytest.raises(SceneError, match="apt-get install"):
        cloud.import_open3d("a point cloud without colours", SceneError)


coordinates = arrays(np.float32, (5, 3, 3), elements=st.floats(-3, 3, width=32))


@given(corners=coordinates, longest=st.floats(0.3, 3))
def test_pieces_are_short_and_preserve_area(corners, longest):
    pieces = bisect_edges(corners, longest, 1_000_000)
    edges = np.linalg.norm(pieces.corners[:, [1, 2, 0]] - pieces.corners, axis=2)
    assert edges.max() <= longest
    before, after = (areas_and_normals(part)[0].sum() for part in (corners, pieces.corners))
    assert after == pytest.approx(before, rel=1e-3, abs=1e-3)


def test_cut_returns_none_if_there_are_too_many_pieces():
    corners = np.array([[[0, 0, 0], [1e6, 0, 0], [0, 1e6, 0]]], np.float32)
    assert bisect_edges(corners, 0.1, 10_000) is None
    near = np.array([[-1, -1, -1], [1, 1, 1]], float)
    clipped = bisect_edges(corners, 0.1, 10_000, near)
    assert areas_and_normals(clipped.corners)[0].sum() == pytest.approx(1, rel=0.2)


@given(points=arrays(np.float32, (40, 3), elements=st.floats(-2, 2, width=32)))
def test_one_point_per_cell_is_kept(points):
    sample = points[first_per_cell(points, 0.5)]
    cells = np.floor((points - points.min(axis=0)) / np.float32(0.5))
    assert len(sample) == len(np.unique(cells, axis=0))
    assert np.linalg.norm(points[:, None] - sample[None], axis=2).min(axis=1).max() <= 0.5 * 3**0.5
