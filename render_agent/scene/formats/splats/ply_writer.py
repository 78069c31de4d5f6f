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
    columns = {
        **_named("xyz", points),
        **_named(("nx", "ny", "nz"), np.zeros_like(points)),
        **_named([f"f_dc_{i}" for i in range(3)], gaussians.harmonics[:, 0]),
        **_named([f"f_rest_{i}" for i in range(varying.shape[1])], varying),
        "opacity": np.log(opacities / (1 - opacities)),
        **_named([f"scale_{i}" for i in range(3)], np.log(np.maximum(gaussians.scales, LEAST))),
        **_named([f"rot_{i}" for i in range(4)], gaussians.rotations),
    }
    rows = np.empty(len(points), [(name, "<f4") for name in columns])
    for name, column in columns.items():
        rows[name] = column
    header = ["ply", "format binary_little_endian 1.0", *(f"comment {line}" for line in comments)]
    header += ["comment up z", f"element vertex {len(points)}"]
    header += [*(f"property float {name}" for name in columns), "end_header", ""]
    return "\n".join(header).encode("ascii", "replace") + rows.tobytes()


def _named(names: Sequence[str], table: NDArray[np.float32]) -> dict[str, NDArray[np.float32]]:
    return dict(zip(names, table.T, strict=True))
