"""A lattice of free places in all three dimensions, connected to their neighbours, for shortest paths."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.free_space.standing import (
    CLEARANCE_METRES,
    LATTICE_METRES,
    MAX_PLACES,
    SLACK_METRES,
)

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix
    from scipy.spatial import cKDTree

FloatArray = NDArray[np.float64]

# Half of the 26 neighbours of a lattice place; edges are undirected.
NEIGHBOURS = np.array([(i, j, k) for i in (-1, 0, 1) for j in (-1, 0, 1) for k in (-1, 0, 1)])[14:]


class Lattice(NamedTuple):
    """Free places, (n, 3) metres, and the lengths of the steps between neighbouring ones."""

    places: FloatArray
    steps: csr_matrix


def build_lattice(
    tree: cKDTree,  # surface samples
    bounds: FloatArray,  # (2, 3) metres
) -> Lattice:
    """Return the free places of a scene, LATTICE_METRES apart, or more in very large scans."""
    from scipy.sparse import csr_matrix

    extent = bounds[1] - bounds[0]
    spacing = max(LATTICE_METRES, float(np.cbrt(max(extent.prod(), 1e-9) / MAX_PLACES)))
    axes = [
        bounds[0, axis] + spacing * np.arange(int(extent[axis] / spacing) + 1) for axis in range(3)
    ]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    required = CLEARANCE_METRES + SLACK_METRES
    clearances = tree.query(grid.reshape(-1, 3), distance_upper_bound=required)[0]
    free = (clearances >= required).reshape(grid.shape[:3])
    numbers = np.full([size + 2 for size in free.shape], -1)
    numbers[1:-1, 1:-1, 1:-1][free] = np.arange(free.sum())
    cells = np.argwhere(free) + 1
    rows, columns, lengths = [], [], []
    for step in NEIGHBOURS:
        others = numbers[tuple((cells + step).T)]
        is_edge = others >= 0
        rows.append(np.flatnonzero(is_edge))
        columns.append(others[is_edge])
        lengths.append(np.full(int(is_edge.sum()), spacing * float(np.linalg.norm(step))))
    edges = np.concatenate(rows), np.concatenate(columns)
    steps = csr_matrix((np.concatenate(lengths), edges), shape=(int(free.sum()),) * 2)
    return Lattice(grid[free], steps)
