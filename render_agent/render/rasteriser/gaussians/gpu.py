"""Draws splats on an NVIDIA GPU with gsplat, if that is installed and works. This is the only module that imports
gsplat.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from render_agent.render.renderer import BACKGROUND, NEAR_METRES, Frame
from render_agent.scans.camera import Camera, MapCamera
from render_agent.scans.gaussians import Gaussians
from render_agent.scans.scene import Scene
from render_agent.util.reasons import reason_of

HALF = 0.5  # pixels that absorb less than this share of the light have no depth

log = logging.getLogger(__name__)


def gpu_renderer() -> GpuGaussians | None:
    """Return a GPU renderer for splats; None without a GPU, or if gsplat is not installed or fails."""
    if find_spec("gsplat") is None or find_spec("torch") is None:
        return None
    import torch

    if not torch.cuda.is_available():
        return None
    try:
        renderer = GpuGaussians()
        renderer.draw(_point(), Camera((0.0, 0.0, 0.0)), 16, 16)
    # gsplat is compiled on first use, which can fail with arbitrary exceptions.
    except Exception as error:  # noqa: BLE001
        log.warning(
            "gsplat does not work (%s: %s); splats are drawn on the CPU instead",
            type(error).__name__,
            reason_of(error),
        )
        return None
    return renderer


@dataclass(frozen=True, eq=False)
class _GpuGaussians:
    """The Gaussians of a scene as tensors on the GPU."""

    points: Any
    rotations: Any
    scales: Any
    opacities: Any
    harmonics: Any
    axes: Any


class GpuGaussians:
    """Draws splats with gsplat; see `Renderer`. Frames equal those of the CPU except for rounding.

    A pixel's depth is the mean rather than the median of the depths at which its light is absorbed; it is inf if less
    than half is absorbed. Frames have no primitives. Scenes stay on the GPU for their lifetime.
    """

    def __init__(self) -> None:
        import gsplat
        import torch

        self._torch: Any = torch
        self._gsplat: Any = gsplat
        self._uploaded: WeakKeyDictionary[Scene, _GpuGaussians] = WeakKeyDictionary()

    def close(self) -> None:
        self._uploaded.clear()

    def draw(self, scene: Scene, camera: Camera | MapCamera, width: int, height: int) -> Frame:
        assert scene.gaussians is not None
        splat = self._uploaded.get(scene)
        if splat is None:
            splat = self._uploaded[scene] = self._upload(scene, scene.gaussians)
        pose, intrinsics, near = _pinhole(camera, width, height)
        with self._torch.no_grad():
            image, light, _ = self._gsplat.rasterization(
                splat.points,
                splat.rotations,
                splat.scales,
                splat.opacities,
                self._colours(splat, camera),
                self._tensor(np.linalg.inv(pose))[None],
                self._tensor(intrinsics)[None],
                width,
                height,
                near_plane=near,
                render_mode="RGB+ED",
                camera_model="ortho" if isinstance(camera, MapCamera) else "pinhole",
            )
            background = self._tensor(np.array(BACKGROUND) / 255)
            colours = image[0, ..., :3] + (1 - light[0]) * background
            shades = (colours.clamp(0, 1) * 255 + 0.5).to(self._torch.uint8).cpu().numpy()
            depth = image[0, ..., 3].masked_fill(light[0, ..., 0] < HALF, math.inf)
            return Frame(shades, depth.float().cpu().numpy())

    def _colours(self, splat: _GpuGaussians, camera: Camera | MapCamera) -> Any:
        """Return the colours of the Gaussians as seen by the camera, (n, 3)."""
        if isinstance(camera, MapCamera):
            directions = self._tensor(np.array([0.0, 0.0, -1.0])).expand_as(splat.points)
        else:
            directions = splat.points - self._tensor(np.array(camera.position))
        directions = self._torch.nn.functional.normalize(directions, dim=-1) @ splat.axes.T
        degree = math.isqrt(splat.harmonics.shape[1]) - 1
        colours = self._gsplat.spherical_harmonics(degree, directions, splat.harmonics)
        return (colours + 0.5).clamp_min(0)

    def _upload(self, scene: Scene, gaussians: Gaussians) -> _GpuGaussians:
        arrays = (
            scene.points, gaussians.rotations, gaussians.scales, gaussians.opacities,
            gaussians.harmonics, gaussians.harmonics_axes,
        )  # fmt: skip
        return _GpuGaussians(*map(self._tensor, arrays))

    def _tensor(self, array: Any) -> Any:
        return self._torch.as_tensor(np.ascontiguousarray(array, np.float32), device="cuda")


def _pinhole(
    camera: Camera | MapCamera, width: int, height: int
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], float]:
    """Return a camera's pose, (4, 4), intrinsics, (3, 3), and near plane in metres.

    The intrinsics of a map have pixels per metre instead of the focal length.
    """
    if not isinstance(camera, MapCamera):
        return camera.pose, camera.intrinsics(width, height), NEAR_METRES
    pose = np.diag([1.0, -1.0, -1.0, 1.0])
    pose[:3, 3] = (*camera.centre, camera.height)
    scale = 1 / camera.metres_per_pixel
    intrinsics = np.array([[scale, 0, width / 2], [0, scale, height / 2], [0, 0, 1]])
    return pose, intrinsics, 0.0


def _point() -> Scene:
    """Return a splat with a single Gaussian, one metre in front of the origin."""
    points = np.array([[1.0, 0.0, 0.0]], np.float32)
    gaussians = Gaussians(
        np.full((1, 3), 0.1, np.float32),
        np.array([[1, 0, 0, 0]], np.float32),
        np.ones(1, np.float32),
        np.zeros((1, 1, 3), np.float32),
        np.eye(3),
    )
    colours = np.full((1, 3), 128, np.uint8)
    bounds = np.array([points[0], points[0]], float)
    return Scene("point", points, colours, None, 0.0, 1.0, bounds, gaussians=gaussians)
