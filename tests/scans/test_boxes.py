"""Distances and overlaps of oriented boxes against independent computations."""

import numpy as np
import pytest
from scipy.optimize import lsq_linear

from render_agent.scans.boxes import OrientedBox, distance, overlap, rotation, upright


def random_boxes(seed, count):
    rng = np.random.default_rng(seed)
    for number in range(count):
        pair = []
        for _ in range(2):
            axes = np.linalg.qr(rng.normal(size=(3, 3)))[0]
            if number % 3 == 0:
                axes = rotation(float(rng.choice([0, 90, 33]))).T
            pair.append(OrientedBox(rng.uniform(-1.5, 1.5, 3), rng.uniform(0.02, 1.5, 3), axes))
        yield pair


def closest(one, other):
    """The same distance as a bounded least squares problem: centre + axes·u, |u| <= half."""
    matrix = np.hstack([one.axes.T * one.size, -other.axes.T * other.size])
    solved = lsq_linear(
        matrix, other.centre - one.centre, bounds=(-0.5, 0.5), tol=1e-14, method="bvls"
    )
    return np.sqrt(2 * solved.cost)


def test_distance_is_that_of_the_closest_points():
    for one, other in random_boxes(0, 150):
        assert distance(one, other) == pytest.approx(closest(one, other), abs=1e-9)
        assert distance(one, other) == pytest.approx(distance(other, one), abs=1e-9)


def test_boxes_overlap_where_their_distance_is_nothing():
    for one, other in random_boxes(1, 150):
        assert overlap(one, other) == (closest(one, other) < 1e-9)


def test_a_turned_box_holds_its_corners():
    box = upright(np.array([-1, -0.5, 0]), np.array([1, 0.5, 2]), 30, np.array([3.0, 4.0, 1.0]))
    assert np.allclose(box.centre, [3, 4, 2])
    assert np.allclose(np.abs(box.local(box.corners)), [1, 0.5, 1])
    assert np.allclose(box.bounds[1, 2] - box.bounds[0, 2], 2)
    assert np.isclose(np.linalg.det(box.axes), 1)
    assert np.allclose(box.axes[0], [np.cos(np.pi / 6), 0.5, 0])


def test_distances_of_simple_boxes():
    one = upright(np.zeros(3), np.ones(3))
    assert distance(one, upright(np.array([2, 0, 0]), np.array([3, 1, 1]))) == pytest.approx(1)
    assert distance(one, upright(np.array([2, 2, 2]), np.array([3, 3, 3]))) == pytest.approx(3**0.5)
    assert distance(one, upright(np.array([0.5, 0.5, 0.5]), np.array([3, 3, 3]))) == 0
    assert distance(one, upright(np.array([1, 0, 0]), np.array([2, 1, 1]))) == pytest.approx(0)
