"""Every kind of furniture: several coloured parts, centred, with outward faces."""

import numpy as np
import pytest
from conftest import mostly_slow

from render_agent_lab.room_generator.furniture.catalogue import CATALOGUE, build_piece


def count_parts(mesh):
    """Return the number of connected components of the surface."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    a, b = mesh.faces[:, :2].T, mesh.faces[:, 1:].T
    rows, columns = np.concatenate([a.ravel(), b.ravel()]), np.concatenate([b.ravel(), a.ravel()])
    graph = coo_matrix((np.ones(len(rows)), (rows, columns)), shape=(len(mesh.points),) * 2)
    return connected_components(graph)[0]


@pytest.mark.parametrize("kind", CATALOGUE)
def test_furniture_is_closed_and_centred(kind):
    mesh = build_piece(kind, np.random.default_rng(1), 0.1).mesh
    low, high = mesh.bounds
    assert count_parts(mesh) >= 3
    assert low[2] == pytest.approx(0, abs=1e-9)
    assert np.allclose(low[:2], -high[:2])
    assert np.isfinite(mesh.points).all()
    assert ((mesh.colours >= 0) & (mesh.colours <= 1)).all()
    assert np.array_equal(np.unique(mesh.faces), np.arange(len(mesh.points)))
    corners = mesh.points[mesh.faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    assert np.linalg.norm(normals, axis=1).sum() / 2 > 0.02
    # Closed parts that face outwards enclose a positive volume.
    volume = np.einsum("ij,ij->", corners[:, 0], np.cross(corners[:, 1], corners[:, 2])) / 6
    assert volume > 0


@pytest.mark.parametrize("kind", mostly_slow(CATALOGUE, *list(CATALOGUE)[::4]))
def test_furniture_varies_with_the_seed_and_is_reproducible(kind):
    mesh, same, other = (
        build_piece(kind, np.random.default_rng(seed), 0.15).mesh for seed in (1, 1, 2)
    )
    assert np.array_equal(mesh.points, same.points)
    assert np.array_equal(mesh.colours, same.colours)
    has_equal_points = np.array_equal(mesh.points, other.points)
    assert not (has_equal_points and np.array_equal(mesh.colours, other.colours))


def test_top_is_the_height_of_the_upper_surface():
    for kind in ("dining table", "desk", "counter", "dresser", "nightstand", "coffee table"):
        piece = build_piece(kind, np.random.default_rng(3), 0.1)
        over = piece.mesh.points[np.abs(piece.mesh.points[:, :2]).max(1) < 0.1]
        assert over[:, 2].max() == pytest.approx(piece.top, abs=0.002)
