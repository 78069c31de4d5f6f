"""Projects Gaussians into an image: EWA splatting, and colours from spherical harmonics.

Formulas: M. Zwicker et al., "EWA Volume Splatting" (2001), for the covariance in the image; B. Kerbl et al., "3D
Gaussian Splatting for Real-Time Radiance Field Rendering" (2023), for the low-pass filter, the harmonics, and the
minimum opacity.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from render_agent.render.rasteriser.kernels import inlined_kernel, kernel

# Entries of a projected Gaussian's record: centre (u, v), inverse covariance in the image (uu, uv, vv), exponent at which
# it ends, opacity, red, green, blue, depth, slope of the depth along u and v, and maximum depth deviation.
RECORD = 14

# Square pixels added to the covariance, so that nothing falls between pixels.
LOW_PASS_PIXELS = np.float32(0.3)
# Square pixels; minimum thickness of edge-on flat Gaussians when computing slopes.
EDGE_PIXELS = 0.01
MIN_ALPHA = 1.0 / 255.0  # smaller contributions to a pixel are skipped

# Share of the image size. Covariances farther outside the image use the projection's derivative at this margin, because
# the projection is no longer nearly linear there.
MAX_MARGIN_SHARE = 0.15


@kernel
def covariances(scales: Any, rotations: Any, order: Any) -> Any:
    """Return covariances in `order`, (n, 6) float32: xx, xy, xz, yy, yz, zz in square metres."""
    result = np.empty((len(order), 6), np.float32)
    for i in range(len(order)):
        source = order[i]
        w, x = np.float64(rotations[source, 0]), np.float64(rotations[source, 1])
        y, z = np.float64(rotations[source, 2]), np.float64(rotations[source, 3])
        a, b, c = (
            np.float64(scales[source, 0]),
            np.float64(scales[source, 1]),
            np.float64(scales[source, 2]),
        )
        m00, m01, m02 = (
            (1 - 2 * (y * y + z * z)) * a,
            2 * (x * y - w * z) * b,
            2 * (x * z + w * y) * c,
        )
        m10, m11, m12 = (
            2 * (x * y + w * z) * a,
            (1 - 2 * (x * x + z * z)) * b,
            2 * (y * z - w * x) * c,
        )
        m20, m21, m22 = (
            2 * (x * z - w * y) * a,
            2 * (y * z + w * x) * b,
            (1 - 2 * (x * x + y * y)) * c,
        )
        result[i, 0] = m00 * m00 + m01 * m01 + m02 * m02
        result[i, 1] = m00 * m10 + m01 * m11 + m02 * m12
        result[i, 2] = m00 * m20 + m01 * m21 + m02 * m22
        result[i, 3] = m10 * m10 + m11 * m11 + m12 * m12
        result[i, 4] = m10 * m20 + m11 * m21 + m12 * m22
        result[i, 5] = m20 * m20 + m21 * m21 + m22 * m22
    return result


@kernel
def _colour(harmonics: Any, source: Any, x: Any, y: Any, z: Any, record: Any) -> None:
    """Write the colour of a Gaussian seen along a unit direction (x, y, z) into its record."""
    two, three, four = np.float32(2.0), np.float32(3.0), np.float32(4.0)
    count = harmonics.shape[1]
    xx, yy, zz = x * x, y * y, z * z
    for channel in range(3):
        value = np.float32(0.5) + np.float32(0.28209479177387814) * harmonics[source, 0, channel]
        if count > 1:
            value += np.float32(0.4886025119029199) * (
                z * harmonics[source, 2, channel]
                - y * harmonics[source, 1, channel]
                - x * harmonics[source, 3, channel]
            )
        if count > 4:
            value += np.float32(1.0925484305920792) * (
                x * y * harmonics[source, 4, channel]
                - y * z * harmonics[source, 5, channel]
                - x * z * harmonics[source, 7, channel]
            )
            value += (
                np.float32(0.31539156525252005)
                * (two * zz - xx - yy)
                * harmonics[source, 6, channel]
            )
            value += np.float32(0.5462742152960396) * (xx - yy) * harmonics[source, 8, channel]
        if count > 9:
            value -= np.float32(0.5900435899266435) * (
                y * (three * xx - yy) * harmonics[source, 9, channel]
                + x * (xx - three * yy) * harmonics[source, 15, channel]
            )
            value += np.float32(2.890611442640554) * x * y * z * harmonics[source, 10, channel]
            value -= (
                np.float32(0.4570457994644658)
                * (four * zz - xx - yy)
                * (y * harmonics[source, 11, channel] + x * harmonics[source, 13, channel])
            )
            value += (
                np.float32(0.3731763325901154)
                * z
                * (two * zz - three * xx - three * yy)
                * harmonics[source, 12, channel]
            )
            value += np.float32(1.445305721320277) * z * (xx - yy) * harmonics[source, 14, channel]
        record[7 + channel] = max(value, np.float32(0.0))


@inlined_kernel
def _linear(m: Any, row: Any, x: Any, y: Any, z: Any) -> Any:
    """Apply a row of the projection to a position in metres: u or v times depth (rows 0, 1), or depth (row 3)."""
    return m[row, 0] * x + m[row, 1] * y + m[row, 2] * z + m[row, 3]


@inlined_kernel
def _derivatives(m: Any, row: Any, at: Any, limit: Any, scale: Any) -> Any:
    """Return the derivatives of u (row 0) or v (row 1) along x, y and z at pixel `at` of `limit`, clamped near the
    image.
    """
    at = min(max(at, -MAX_MARGIN_SHARE * limit), (1.0 + MAX_MARGIN_SHARE) * limit)
    return (
        (m[row, 0] - at * m[2, 0]) * scale,
        (m[row, 1] - at * m[2, 1]) * scale,
        (m[row, 2] - at * m[2, 2]) * scale,
    )


@inlined_kernel
def _times(covariance: Any, i: Any, a0: Any, a1: Any, a2: Any) -> Any:
    """Return the product of a Gaussian's covariance, in the world frame, and (a0, a1, a2)."""
    s0, s1, s2 = (
        np.float64(covariance[i, 0]),
        np.float64(covariance[i, 1]),
        np.float64(covariance[i, 2]),
    )
    s3, s4, s5 = (
        np.float64(covariance[i, 3]),
        np.float64(covariance[i, 4]),
        np.float64(covariance[i, 5]),
    )
    return s0 * a0 + s1 * a1 + s2 * a2, s1 * a0 + s3 * a1 + s4 * a2, s2 * a0 + s4 * a1 + s5 * a2


@inlined_kernel
def _extent(at: Any, reach: Any, limit: Any) -> Any:
    """Return the first and last-plus-one pixel within `reach` of a position, limited to `limit` pixels."""
    first = np.int64(min(max(np.ceil(at - reach - 0.5), 0.0), limit))
    return first, np.int64(min(max(np.floor(at + reach + 0.5), 0.0), limit))


@inlined_kernel
def _slopes(along_u: Any, along_v: Any, uu: Any, uv: Any, vv: Any) -> Any:
    """Return the slopes along u and v of a Gaussian's mean depth given u and v.

    `along_u` and `along_v` are the covariances of depth with u and v; uu, uv and vv the low-passed covariance in the
    image.
    """
    uu, vv = uu - LOW_PASS_PIXELS + EDGE_PIXELS, vv - LOW_PASS_PIXELS + EDGE_PIXELS
    inverse = 1.0 / (uu * vv - uv * uv)
    return (along_u * vv - along_v * uv) * inverse, (along_v * uu - along_u * uv) * inverse


@inlined_kernel
def _depth_variance(m: Any, covariance: Any, i: Any) -> Any:
    """Return the variance of a Gaussian's depth in square metres."""
    s0, s1, s2 = (
        np.float64(covariance[i, 0]),
        np.float64(covariance[i, 1]),
        np.float64(covariance[i, 2]),
    )
    s3, s4, s5 = (
        np.float64(covariance[i, 3]),
        np.float64(covariance[i, 4]),
        np.float64(covariance[i, 5]),
    )
    return (
        m[3, 0] * (s0 * m[3, 0] + 2 * (s1 * m[3, 1] + s2 * m[3, 2]))
        + m[3, 1] * (s3 * m[3, 1] + 2 * s4 * m[3, 2]) + m[3, 2] * s5 * m[3, 2]
    )  # fmt: skip


@inlined_kernel
def _direction(eye: Any, x: Any, y: Any, z: Any) -> Any:
    """Return the unit direction from the eye to a position."""
    dx, dy, dz = x - eye[0], y - eye[1], z - eye[2]
    length = 1.0 / np.sqrt(dx * dx + dy * dy + dz * dz)
    return dx * length, dy * length, dz * length


@kernel
def project(
    points: Any, covariance: Any, opacities: Any, harmonics: Any, order: Any, block_size: Any,
    blocks: Any, first: Any, last: Any, matrix: Any, perspective: Any, near: Any, eye: Any, axes: Any,
    width: Any, height: Any, records: Any, bounds: Any, sources: Any, keys: Any,
) -> Any:  # fmt: skip
    """Project the Gaussians of the visible blocks first … last-1, and return the number in the image.

    Records, bounds, sources and keys are written contiguously, starting at slot first * block_size.
    """
    m = matrix
    slot = first * block_size
    depth_bits = np.empty(1, np.float32)
    as_bits = depth_bits.view(np.uint32)
    for number in range(first, last):
        start = blocks[number] * block_size
        for i in range(start, min(start + block_size, points.shape[0])):
            opacity = np.float64(opacities[i])
            x, y, z = np.float64(points[i, 0]), np.float64(points[i, 1]), np.float64(points[i, 2])
            depth = _linear(m, 3, x, y, z)
            if depth < near or opacity < MIN_ALPHA:
                continue
            scale = 1.0 / depth if perspective else 1.0
            u, v = _linear(m, 0, x, y, z) * scale, _linear(m, 1, x, y, z) * scale
            a0, a1, a2 = _derivatives(m, 0, u, width, scale)
            b0, b1, b2 = _derivatives(m, 1, v, height, scale)
            p0, p1, p2 = _times(covariance, i, a0, a1, a2)
            q0, q1, q2 = _times(covariance, i, b0, b1, b2)
            uu = a0 * p0 + a1 * p1 + a2 * p2 + LOW_PASS_PIXELS
            uv = b0 * p0 + b1 * p1 + b2 * p2
            vv = b0 * q0 + b1 * q1 + b2 * q2 + LOW_PASS_PIXELS
            determinant = uu * vv - uv * uv
            if not (determinant > 0.0 and determinant < np.inf):
                continue
            end = np.log(opacity / MIN_ALPHA)
            left, right = _extent(u, np.sqrt(2.0 * end * uu), width)
            top, bottom = _extent(v, np.sqrt(2.0 * end * vv), height)
            if left >= right or top >= bottom:
                continue
            record = records[slot]
            inverse = 1.0 / determinant
            record[0], record[1] = u, v
            record[2], record[3], record[4] = vv * inverse, -uv * inverse, uu * inverse
            record[5], record[6] = end, opacity
            record[10] = depth
            along_u = m[3, 0] * p0 + m[3, 1] * p1 + m[3, 2] * p2
            along_v = m[3, 0] * q0 + m[3, 1] * q1 + m[3, 2] * q2
            record[11], record[12] = _slopes(along_u, along_v, uu, uv, vv)
            record[13] = 3.0 * np.sqrt(max(_depth_variance(m, covariance, i), 0.0))
            dx, dy, dz = 0.0, 0.0, -1.0
            if perspective:
                dx, dy, dz = _direction(eye, x, y, z)
            _colour(
                harmonics, order[i],
                np.float32(axes[0, 0] * dx + axes[0, 1] * dy + axes[0, 2] * dz),
                np.float32(axes[1, 0] * dx + axes[1, 1] * dy + axes[1, 2] * dz),
                np.float32(axes[2, 0] * dx + axes[2, 1] * dy + axes[2, 2] * dz),
                record,
            )  # fmt: skip
            bounds[slot, 0], bounds[slot, 1], bounds[slot, 2], bounds[slot, 3] = (
                top,
                bottom,
                left,
                right,
            )
            sources[slot] = order[i]
            # The bit patterns of positive floats sort like their values.
            depth_bits[0] = depth
            keys[slot] = np.uint64(as_bits[0]) << np.uint64(32) | np.uint64(slot)
            slot += 1
    return slot - first * block_size
