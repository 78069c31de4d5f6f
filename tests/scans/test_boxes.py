"""Distance and overlap of oriented boxes, compared with independent computations."""

import numpy as np
import pytest
from scipy.optimize import lsq_linear

from render_agent.scans.boxes import OrientedBox, boxes_overlap, distance, rotation, upright_box


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


def expected_distance(first, second):
    """Solve the distance as a bounded least-squares problem over centre + axes · size · u, |u| <= 1/2."""
    matrix = np.hstack([first.axes.T * first.size, -second.axes.T * second.size])
    solution = lsq_linear(
        matrix, second.centre - first.centre, bounds=(-0.5, 0.5), tol=1e-14, method="bvls"
    )
    return np.sqrt(2 * solution.cost)


def test_distance_is_exact_and_symmetric():
    for first, second in random_boxes(0, 150):
        assert distance(first, second) == pytest.approx(expected_distance(first, second), abs=1e-9)
        assert distance(first, second) == pytest.approx(distance(second, first), abs=1e-9)


def test_boxes_overlap_if_their_distance_is_zero():
    for first, second in random_boxes(1, 150):
        assert boxes_overlap(first, second) == (expected_distance(first, second) < 1e-9)


def test_rotated_box_has_the_right_corners_and_axes():
    box = upright_box(np.array([-1, -0.5, 0]), np.array([1, 0.5, 2]), 30, np.array([3.0, 4.0, 1.0]))
    assert np.allclose(box.centre, [3, 4, 2])
    assert np.allclose(np.abs(box.local(box.corners)), [1, 0.5, 1])
    assert np.allclose(box.bounds[1, 2] - box.bounds[0, 2], 2)
    assert np.isclose(np.linalg.det(box.axes), 1)
    assert np.allclose(box.axes[0], [np.cos(np.pi / 6), 0.5, 0])


def test_distances_of_simple_boxes():
    unit = upright_box(np.zeros(3), np.ones(3))
    assert distance(unit, upright_box(np.array([2, 0, 0]), np.array([3, 1, 1]))) == pytest.approx(1)
    assert distance(unit, upright_box(np.array([2, 2, 2]), np.array([3, 3, 3]))) == pytest.approx(
        3**0.5
    )
    assert distance(unit, upright_box(np.array([0.5, 0.5, 0.5]), np.array([3, 3, 3]))) == 0
    assert distance(unit, upright_box(np.array([1, 0, 0]), np.array([2, 1, 1]))) == pytest.approx(0)
