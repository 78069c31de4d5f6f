"""Small scenes with known geometry."""

from pathlib import Path

import numpy as np

from render_agent.scans.formats.ply.binary import binary_ply

RED, GREEN, BLUE = (220, 30, 30), (30, 170, 60), (40, 60, 210)


def box(low, high, colour, cells=1):
    """Return the points, (n, 3), colours, (n, 3), and faces, (m, 3), of a box with `cells` × `cells` quads per side."""
    low, high = np.asarray(low, float), np.asarray(high, float)
    points, faces = [], []
    steps = np.linspace(0, 1, cells + 1)
    for axis in range(3):
        u, v = [other for other in range(3) if other != axis]
        for end in (low, high):
            grid = np.empty((cells + 1, cells + 1, 3))
            grid[..., axis] = end[axis]
            grid[..., u] = (low[u] + steps * (high[u] - low[u]))[:, None]
            grid[..., v] = (low[v] + steps * (high[v] - low[v]))[None, :]
            first = sum(map(len, points))
            corner = (np.arange(cells)[:, None] * (cells + 1) + np.arange(cells)).ravel() + first
            faces.append(np.column_stack([corner, corner + 1, corner + cells + 1]))
            faces.append(np.column_stack([corner + 1, corner + cells + 2, corner + cells + 1]))
            points.append(grid.reshape(-1, 3))
    points = np.concatenate(points).astype(np.float32)
    return (
        points,
        np.tile(np.uint8(colour), (len(points), 1)),
        np.concatenate(faces).astype(np.int32),
    )


def joined(*parts):
    """Join meshes."""
    offsets = np.cumsum([0, *(len(points) for points, _, _ in parts[:-1])])
    points, colours, _ = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    faces = np.concatenate([part[2] + offset for part, offset in zip(parts, offsets, strict=True)])
    return points, colours, faces.astype(np.int32)


def room():
    """Return a room of 5 × 4 × 2.5 m with a corner at the origin and a red, a green and a blue box."""
    return joined(
        box((0, 0, 0), (5, 4, 2.5), (200, 196, 188), cells=10),
        box((4, 0.3, 0), (4.6, 1, 0.8), RED),
        box((0.3, 3, 0), (1, 3.7, 1.2), GREEN),
        box((3.9, 3.1, 0), (4.7, 3.8, 0.5), BLUE),
    )


def write_ply(path: Path, points, colours=None, faces=None) -> Path:
    """Write a binary PLY."""
    path.write_bytes(binary_ply(np.asarray(points, np.float32), colours, faces))
    return path
