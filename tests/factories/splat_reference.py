"""Reference renderer of splats: the published formulas in float64, one Gaussian at a time.

B. Kerbl et al., "3D Gaussian Splatting for Real-Time Radiance Field Rendering" (2023): equations 2, 3 and 5,
and the limits of section 6 and its program. M. Zwicker et al., "EWA Volume Splatting" (2001): the Jacobian.
The harmonics use scipy's Legendre functions. No code is shared with the renderer.
"""

import math

import numpy as np
from scipy.spatial.transform import Rotation
from scipy.special import lpmv

from render_agent.render.renderer import BACKGROUND, NEAR_METRES
from render_agent.scans.camera import MapCamera


def harmonics_of(directions, count):
    """Return the real spherical harmonics, (n, count), of unit directions (n, 3), with their signs (-1)^m."""
    x, y, z = directions.T
    angle = np.arctan2(y, x)
    columns = []
    for degree in range(math.isqrt(count)):
        for order in range(-degree, degree + 1):
            m = abs(order)
            share = math.factorial(degree - m) / math.factorial(degree + m)
            norm = math.sqrt((2 * degree + 1) / (4 * math.pi) * share)
            value = norm * lpmv(m, degree, np.clip(z, -1, 1))
            if order:
                value = math.sqrt(2) * value * (np.cos if order > 0 else np.sin)(m * angle)
            columns.append(value)
    return np.stack(columns, axis=1)


def render_reference(scene, camera, width, height):
    """Return the image, (H, W, 3) float from 0 to 255, and the primitive at half the transmittance, (H, W)."""
    g = scene.gaussians
    points = scene.points.astype(float)
    axes = Rotation.from_quat(g.rotations[:, [1, 2, 3, 0]].astype(float)).as_matrix()
    axes = axes * g.scales[:, None].astype(float)
    spread = axes @ axes.transpose(0, 2, 1)
    if isinstance(camera, MapCamera):
        turn = np.diag([1.0, -1.0, -1.0])
        eye = np.array([*camera.centre, camera.height])
        local, scale = (points - eye) @ turn.T, 1 / camera.metres_per_pixel
        pixels = local[:, :2] * scale + np.array([width, height]) / 2
        jacobians = np.broadcast_to([[scale, 0, 0], [0, scale, 0]], (len(points), 2, 3))
        directions = np.broadcast_to([0.0, 0.0, -1.0], points.shape)
        near = 0.0
    else:
        turn, focal, near = camera.pose[:3, :3].T, camera.focal(height), NEAR_METRES
        eye = np.array(camera.position)
        local = (points - eye) @ turn.T
        with np.errstate(divide="ignore", invalid="ignore"):
            pixels = focal * local[:, :2] / local[:, 2:] + np.array([width, height]) / 2
            widest = 1.3 * np.array([width, height]) / 2 / focal
            x, y = np.clip(local[:, :2] / local[:, 2:], -widest, widest).T
            zero, one = np.zeros_like(x), np.ones_like(x)
            jacobians = np.stack(
                [np.stack([one, zero, -x], axis=1), np.stack([zero, one, -y], axis=1)], axis=1
            )
            jacobians *= focal / local[:, 2, None, None]
        offsets = points - eye
        directions = offsets / np.linalg.norm(offsets, axis=1, keepdims=True)
    projected = jacobians @ turn @ spread @ turn.T @ jacobians.transpose(0, 2, 1)
    projected = projected + 0.3 * np.eye(2)
    basis = harmonics_of(directions @ g.harmonics_axes.T, g.harmonics.shape[1])
    colours = np.maximum(0.5 + np.einsum("nk,nkc->nc", basis, g.harmonics.astype(float)), 0)
    image, light = np.zeros((height, width, 3)), np.ones((height, width))
    done, half = np.zeros((height, width), bool), np.full((height, width), -1)
    for i in np.argsort(local[:, 2], kind="stable"):
        if not local[i, 2] >= near:
            continue
        # Ignore everything beyond the radius at which an opaque Gaussian covers less than 1/255.
        reach = 3.4 * np.sqrt(projected[i].diagonal())
        low = np.maximum(np.floor(pixels[i] - reach), 0).astype(int)
        high = np.minimum(np.ceil(pixels[i] + reach), (width, height)).astype(int)
        if (low >= high).any():
            continue
        part = np.s_[low[1] : high[1], low[0] : high[0]]
        du = np.arange(low[0], high[0]) + 0.5 - pixels[i, 0]
        dv = (np.arange(low[1], high[1]) + 0.5 - pixels[i, 1])[:, None]
        (a, b), (_, c) = np.linalg.inv(projected[i])
        alpha = g.opacities[i] * np.exp(-0.5 * (a * du**2 + 2 * b * du * dv + c * dv**2))
        alpha = np.minimum(alpha, 0.99)
        counts = (alpha >= 1 / 255) & ~done[part]
        remaining = light[part] * (1 - alpha)
        done[part] |= counts & (remaining < 1e-4)
        counts &= ~done[part]
        half[part] = np.where(counts & (light[part] > 0.5) & (remaining <= 0.5), i, half[part])
        image[part] += np.where(counts, alpha * light[part], 0)[..., None] * colours[i]
        light[part] = np.where(counts, remaining, light[part])
    image += light[..., None] * np.array(BACKGROUND) / 255
    return np.minimum(image, 1) * 255, half


def psnr(first, second):
    """Return the peak signal-to-noise ratio of two images in decibels."""
    error = np.mean((np.asarray(first, float) - np.asarray(second, float)) ** 2)
    return 10 * np.log10(255**2 / max(error, 1e-12))
