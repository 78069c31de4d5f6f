"""Bounds, floor and ceiling of synthetic rooms with known heights, and of real scans."""

import numpy as np
import pytest
from conftest import test_data
from factories.scans import block, joined, rectangle, room, sampled

from render_agent.scans.extent import measure_extent
from render_agent.scans.formats.cleaning import Scan, clean_scan
from render_agent.scans.formats.load import load_scene

FURNITURE = (block((1, 1, 0), (2.5, 2, 0.75)), block((5, 0.2, 0), (5.8, 2.2, 2.1)))


def extent_of(points, faces=None):
    return measure_extent(clean_scan(Scan(np.asarray(points), None, faces), "synthetic"))


def moved(mesh, offset):
    return mesh[0] + np.asarray(offset, float), mesh[1]


@pytest.mark.parametrize("height", [0.0, -1.35, 37.2])
def test_furnished_room_as_mesh(height):
    points, faces = moved(room(*FURNITURE), (-2, 3, height))
    result = extent_of(points, faces)
    assert result.floor == pytest.approx(height, abs=1e-4)
    assert result.ceiling == pytest.approx(height + 2.7, abs=1e-4)
    assert np.allclose(result.bounds, [[-2, 3, height], [4, 7, height + 2.7]], atol=1e-4)


@pytest.mark.parametrize("height", [0.0, -1.35, 37.2])
def test_furnished_room_as_noisy_cloud(height):
    points = sampled(*moved(room(*FURNITURE), (-2, 3, height)), 60_000)
    points += np.random.default_rng(3).normal(scale=0.01, size=points.shape)
    result = extent_of(points)
    assert result.floor == pytest.approx(height, abs=0.03)
    assert result.ceiling == pytest.approx(height + 2.7, abs=0.03)
    assert np.allclose(result.bounds, [[-2, 3, height], [4, 7, height + 2.7]], atol=0.1)


def test_outlier_points_have_no_effect():
    points = sampled(*room(*FURNITURE), 60_000)
    outliers = np.random.default_rng(4).uniform(-50, 50, (600, 3))
    clean, noisy = extent_of(points), extent_of(np.concatenate([points, outliers]))
    assert np.allclose(clean.bounds, noisy.bounds, atol=0.6)
    assert noisy.floor == pytest.approx(clean.floor, abs=0.02)
    assert noisy.ceiling == pytest.approx(clean.ceiling, abs=0.02)


def test_outlier_faces_and_spikes_have_no_effect():
    points, faces = room(*FURNITURE)
    debris = [
        moved(rectangle((0, 0, 0), (0.05, 0.05, 0)), at)
        for at in [(50, 0, 0), (0, -50, 9), (3, 2, -50)]
    ]
    spiked, corners = joined((points, faces), *debris)
    spiked = np.concatenate([spiked, [[50, 2, 1], [0, 2, 1], [0, 2.05, 1]]])
    corners = np.concatenate([corners, [[len(spiked) - 3, len(spiked) - 2, len(spiked) - 1]]])
    result = extent_of(spiked, corners)
    assert np.allclose(result.bounds, [[0, 0, 0], [6, 4, 2.7]], atol=0.15)
    assert result.floor == pytest.approx(0, abs=1e-4)
    assert result.ceiling == pytest.approx(2.7, abs=1e-4)


def test_without_a_ceiling_the_top_of_the_scan_is_used():
    shell = [rectangle(low, high) for low, high in [
        ((0, 0, 0), (6, 4, 0)), ((0, 0, 0), (0, 4, 2.4)), ((6, 0, 0), (6, 4, 2.4)), ((0, 0, 0), (6, 0, 2.4)),
    ]]  # fmt: skip
    result = extent_of(*joined(*shell, *FURNITURE))
    assert result.floor == 0
    assert result.ceiling == result.bounds[1, 2] == pytest.approx(2.4)


def test_two_storeys_give_the_lowest_floor_and_highest_ceiling():
    storeys = [room(), moved(room(), (0, 0, 2.9))]
    result = extent_of(*joined(*storeys))
    assert (result.floor, result.ceiling) == pytest.approx((0, 5.6), abs=1e-4)


@pytest.mark.parametrize(
    ("name", "floor", "ceiling", "size"),
    [
        pytest.param(
            *("aws_small_house.ply", (-0.01, 0.01), (2.9, 3.01), (19, 11.4, 3)),
            marks=pytest.mark.slow,
        ),
        ("icl_redwood_livingroom1.ply", (-0.01, 0.01), (1.5, 1.6), (3.94, 1.96, 1.57)),
        ("pcl_room_scan_nocolour.ply", (-1.36, -1.2), (1.6, 1.72), (11.3, 9.8, 3.06)),
    ],
)
def test_extent_of_real_scans(name, floor, ceiling, size):
    scene = load_scene(test_data("scenes", name))
    assert floor[0] <= scene.floor <= floor[1]
    assert ceiling[0] <= scene.ceiling <= ceiling[1]
    assert np.allclose(scene.bounds[1] - scene.bounds[0], size, atol=0.1)
    assert scene.is_cloud == name.startswith("pcl")
    again = load_scene(test_data("scenes", name))
    assert np.array_equal(scene.colours, again.colours)
    assert scene.colours.std() > 10


def test_large_walls_count_next_to_many_small_faces(monkeypatch):
    from render_agent.scans import extent as module

    monkeypatch.setattr(module, "MAX_FACES", 100)
    points, faces = room()
    small = np.random.default_rng(9).uniform((2, 1, 0.4), (3, 2, 0.6), (3000, 1, 3))
    corners = (small + np.random.default_rng(10).uniform(0, 0.02, (3000, 3, 3))).reshape(-1, 3)
    result = extent_of(*joined((points, faces), (corners, np.arange(9000).reshape(-1, 3))))
    assert np.allclose(result.bounds, [[0, 0, 0], [6, 4, 2.7]], atol=1e-5)
    assert (result.floor, result.ceiling) == pytest.approx((0, 2.7), abs=1e-4)
