"""Targets in the bundled rooms, and independent computations of what their measures should be."""

import itertools
import json
import math
from pathlib import Path

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import dijkstra

from render_agent.scans.camera import Camera, vertical_from_horizontal
from render_agent.tasks.rooms import BUNDLED

SIZE = (96, 72)

# Room, start (x, y, z, yaw) and target (x, y, z, yaw, pitch) by tier.
ROWS = {
    "rotation": ("room00", (2.4, 2.3, 1.6, 0.0), (2.4, 2.3, 1.6, 90.0, -10.0)),
    "translation": ("room00", (2.4, 1.3, 1.6, 90.0), (2.4, 2.8, 1.6, 90.0, 0.0)),
    "near": ("room00", (2.4, 1.3, 1.6, 0.0), (1.6, 2.3, 1.4, 135.0, -10.0)),
    "far": ("room01", (1.2, 1.5, 1.6, 0.0), (7.6, 4.6, 1.6, 90.0, -10.0)),
}


def view_questions(folder: Path, rows=ROWS) -> Path:
    """Write targets as a question file next to links to the bundled rooms; return the file."""
    lines = []
    for tier, (room, start, target) in rows.items():
        link = folder / f"{room}.ply"
        if not link.exists():
            link.symlink_to((BUNDLED / f"{room}.ply").resolve())
        lines.append(
            {
                "id": tier,
                "scene_name": room,
                "question_type": f"reach_view_{tier}",
                "question": "Move the camera until it shows the target image.",
                "ground_truth": list(target),
                "start": list(start),
            }
        )
    path = folder / "views.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def camera_at(pose, size=SIZE) -> Camera:
    """Return the camera of a pose in a run with default options."""
    x, y, z, yaw, pitch = pose
    return Camera((x, y, z), yaw, pitch, vertical_from_horizontal(75.0, *size))


def angle_between(first: float, second: float) -> float:
    """Return the angle between two headings in degrees, from their vectors."""
    a, b = np.radians([first, second])
    return math.degrees(
        math.acos(min(1.0, max(-1.0, float(np.cos(a) * np.cos(b) + np.sin(a) * np.sin(b)))))
    )


def grid_distance(space, start, goal, spacing=0.1) -> float:
    """Return the shortest distance over a grid of free places with 26 directions, by Dijkstra's algorithm."""
    low, high = space.bounds
    origin = low + (np.array(goal) - low) % spacing
    shape = tuple(((high - origin) / spacing).astype(int) + 1)
    places = origin + spacing * np.stack(np.indices(shape), axis=-1).reshape(-1, 3)
    free = (space.tree.query(places, distance_upper_bound=0.3)[0] >= 0.2).reshape(shape)
    first, last = (
        tuple(np.rint((np.array(p) - origin) / spacing).astype(int)) for p in (start, goal)
    )
    free[first] = True
    numbers = np.arange(free.size).reshape(shape)
    ends, lengths = [], []
    for step in itertools.product((-1, 0, 1), repeat=3):
        if step > (0, 0, 0):  # the opposite steps are the same edges
            here = tuple(slice(max(0, -s), n - max(0, s)) for s, n in zip(step, shape, strict=True))
            there = tuple(
                slice(max(0, s), n - max(0, -s)) for s, n in zip(step, shape, strict=True)
            )
            both = free[here] & free[there]
            ends.append([numbers[here][both], numbers[there][both]])
            lengths.append(np.full(both.sum(), spacing * math.hypot(*step)))
    edges = np.concatenate(lengths), np.concatenate(ends, axis=1)
    grid = coo_array(edges, shape=(free.size, free.size)).tocsr()
    return float(dijkstra(grid, directed=False, indices=numbers[first])[numbers[last]])


def shared_surface(depths, cameras) -> float:
    """Return intersection over union of two views' surface, pixel by pixel, in plain numpy."""
    shares = []
    for (depth, camera), (other, seen_by) in zip(
        zip(depths, cameras, strict=True),
        zip(depths[::-1], cameras[::-1], strict=True),
        strict=True,
    ):
        height, width = depth.shape
        rows, columns = np.nonzero(np.isfinite(depth))
        rays = np.linalg.inv(camera.intrinsics(width, height)) @ np.stack(
            [columns + 0.5, rows + 0.5, np.ones(len(rows))]
        )
        points = (rays * depth[rows, columns]).T @ camera.pose[:3, :3].T + camera.position
        pixels, distances = seen_by.project(points, width, height)
        inside = (
            (distances > 0) & (pixels >= 0).all(axis=1) & (pixels < (width, height)).all(axis=1)
        )
        u, v = np.floor(np.where(inside[:, None], pixels, 0)).astype(int).T
        shares.append(
            (inside & (distances <= other[v, u] * 1.01 + 0.05) & np.isfinite(other[v, u])).mean()
        )
    first, second = shares
    return 0.0 if not first or not second else 1 / (1 / first + 1 / second - 1)
