"""Splats written as PLY files of the original work, which every viewer of splats reads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from render_agent.scene.gaussians import Gaussians

LEAST = 1e-7
"""Opacities and sizes are written as logarithms, in which there is no nothing and no whole."""


def splat_ply(
    points: NDArray[np.float32], gaussians: Gaussians, comments: Sequence[str] = ()
) -> bytes:
    """Return a splat, z up, as the bytes of a binary PLY file; equal splats, equal bytes.

    points: (n, 3) metres. comments: lines of the header. Harmonics are written as they are: those of a
    splat that was turned have to be constant.
    """
    varying = gaussians.harmonics[:, 1:].transpose(0, 2, 1).reshape(len(points), -1)
    opacities = np.clip(gaussians.opacities.astype(np.float64), LEAST, 1 - LEAST)
    names = [*"xyz", "nx", "ny", "nz", *(f"f_dc_{i}" for i in range(3))]
    names += [*(f"f_rest_{i}" for i in range(varying.shape[1])), "opacity"]
    names += [*(f"scale_{i}" for i in range(3)), *(f"rot_{i}" for i in range(4))]
    rows = np.zeros((len(points), len(names)), "<f4")
    last = len(names) - 8
    rows[:, :3] = points
    rows[:, 6:9] = gaussians.harmonics[:, 0]
    rows[:, 9:last] = varying
    rows[:, last] = np.log(opacities / (1 - opacities))
    rows[:, last + 1 : last + 4] = np.log(np.maximum(gaussians.scales, LEAST))
    rows[:, last + 4 :] = gaussians.rotations
    header = ["ply", "format binary_little_endian 1.0", *(f"comment {line}" for line in comments)]
    header += ["comment up z", f"element vertex {len(points)}"]
    header += [*(f"property float {name}" for name in names), "end_header", ""]
    return b"".join(["\n".join(header).encode("ascii", "replace"), rows.data])
