"""Rotating, scaling and mirroring Gaussians."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from render_agent.scans.gaussians import MIRROR, Gaussians

TURN = Rotation.from_euler("xyz", (20, -50, 110), degrees=True).as_matrix()


def covariances(gaussians: Gaussians) -> np.ndarray:
    """Return the covariance of each Gaussian, (n, 3, 3) in square metres."""
    axes = Rotation.from_quat(gaussians.rotations[:, [1, 2, 3, 0]]).as_matrix()
    spread = axes * gaussians.scales[:, None].astype(np.float64)
    return spread @ spread.transpose(0, 2, 1)


def random_gaussians(count: int = 20) -> Gaussians:
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
def test_covariances_and_harmonics_are_rotated_with_the_scene(turn: np.ndarray) -> None:
    before = random_gaussians()
    after = before.turned(turn)
    np.testing.assert_allclose(covariances(after), turn @ covariances(before) @ turn.T, atol=1e-6)
    direction = np.array([0.6, 0.0, 0.8])
    np.testing.assert_allclose(after.harmonics_axes @ (turn @ direction), direction, atol=1e-12)
    assert after.harmonics is before.harmonics


def test_gaussians_are_scaled_with_the_scene() -> None:
    np.testing.assert_allclose(
        covariances(random_gaussians().scaled(2)), 4 * covariances(random_gaussians()), rtol=1e-5
    )
