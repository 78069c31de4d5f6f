"""Gaussians turned, scaled and mirrored with their scene."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from render_agent.scans.gaussians import MIRROR, Gaussians

TURN = Rotation.from_euler("xyz", (20, -50, 110), degrees=True).as_matrix()


def covariances(gaussians: Gaussians) -> np.ndarray:
    """Return the covariance, (n, 3, 3) square metres, of each Gaussian."""
    axes = Rotation.from_quat(gaussians.rotations[:, [1, 2, 3, 0]]).as_matrix()
    spread = axes * gaussians.scales[:, None].astype(np.float64)
    return spread @ spread.transpose(0, 2, 1)


def some(count: int = 20) -> Gaussians:
    random = np.random.default_rng(3)
    rotations = random.normal(size=(count, 4))
    rotations /= np.linalg.norm(rotations, axis=1, keepdims=True)
    return Gaussians(
        random.uniform(0.01, 0.5, (count, 3)).astype(np.float32),
        rotations.astype(np.float32),
        random.uniform(0, 1, count).astype(np.float32),
        random.normal(size=(count, 16, 3)).astype(np.float32),
        np.eye(3),
    )


@pytest.mark.parametrize("turn", [TURN, MIRROR, TURN @ MIRROR], ids=["turn", "mirror", "both"])
def test_covariances_and_harmonics_turn_with_the_scene(turn: np.ndarray) -> None:
    before = some()
    after = before.turned(turn)
    np.testing.assert_allclose(covariances(after), turn @ covariances(before) @ turn.T, atol=1e-6)
    direction = np.array([0.6, 0.0, 0.8])
    np.testing.assert_allclose(after.harmonics_axes @ (turn @ direction), direction, atol=1e-12)
    assert after.harmonics is before.harmonics


def test_a_larger_scene_has_larger_gaussians() -> None:
    np.testing.assert_allclose(covariances(some().scaled(2)), 4 * covariances(some()), rtol=1e-5)
