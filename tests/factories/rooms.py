"""Rooms with exact geometry, for tests of views."""

import numpy as np

from render_agent.scans.scene import Scene

FLOOR, WALLS, CEILING = (150, 140, 120), (235, 235, 225), (200, 0, 200)
RED, GREEN, BLUE = (220, 0, 0), (0, 170, 0), (0, 0, 210)

SIDES = np.array(
    [[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]]
)


def box(low, high, colour):
    """Return the corners, colours and triangles of a closed box; `low` and `high` in metres."""
    corners = np.array([np.where([i & 4, i & 2, i & 1], high, low) for i in range(8)], float)
    faces = np.concatenate([SIDES[:, [0, 1, 2]], SIDES[:, [0, 2, 3]]])
    return corners, np.tile(colour, (8, 1)), faces


def mesh(parts, floor=0.0, ceiling=2.7, bounds=None):
    """Combine parts, as returned by `box`, into a scene."""
    points, colours, faces, count = [], [], [], 0
    for corners, shades, triangles in parts:
        points.append(corners)
        colours.append(shades)
        faces.append(triangles + count)
        count += len(corners)
    points = np.concatenate(points).astype(np.float32)
    limits = [points.min(axis=0), points.max(axis=0)] if bounds is None else bounds
    return Scene(
        "made",
        points,
        np.concatenate(colours).astype(np.uint8),
        np.concatenate(faces).astype(np.int32),
        floor,
        ceiling,
        np.array(limits, np.float64),
    )


def room(*furniture, low=(-1.0, -2.0), high=(5.0, 2.5), ceiling=2.7):
    """Return a room with floor, four walls, ceiling and furniture."""
    (x0, y0), (x1, y1), thick = low, high, 0.1
    shell = [
        box((x0, y0, -thick), (x1, y1, 0), FLOOR),
        box((x0, y0, ceiling), (x1, y1, ceiling + thick), CEILING),
        box((x0 - thick, y0, 0), (x0, y1, ceiling), WALLS),
        box((x1, y0, 0), (x1 + thick, y1, ceiling), WALLS),
        box((x0, y0 - thick, 0), (x1, y0, ceiling), WALLS),
        box((x0, y1, 0), (x1, y1 + thick, ceiling), WALLS),
    ]
    bounds = [(x0, y0, 0), (x1, y1, ceiling)]
    return mesh([*shell, *furniture], ceiling=ceiling, bounds=bounds)


def as_cloud(scene, spacing=0.02):
    """Return the scene as a point cloud sampled evenly from its faces."""
    dice = np.random.default_rng(7)
    corners = scene.points[scene.faces].astype(float)
    sizes = np.linalg.norm(
        np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1
    )
    face = np.repeat(np.arange(len(sizes)), np.ceil(sizes / 2 / spacing**2).astype(int))
    a, b = dice.random((2, len(face), 1))
    a, b = np.where(a + b > 1, 1 - a, a), np.where(a + b > 1, 1 - b, b)
    p, q, r = (corners[face, corner] for corner in range(3))
    return Scene(
        "made cloud",
        (p + a * (q - p) + b * (r - p)).astype(np.float32),
        scene.colours[scene.faces[face, 0]],
        None,
        scene.floor,
        scene.ceiling,
        scene.bounds,
    )


def find_pixels(image, colour, tolerance=40):
    """Return the centres (u, v), (n, 2), of pixels whose colour is close to `colour`."""
    near = np.abs(image.astype(int) - colour).max(axis=2) <= tolerance
    rows, columns = np.nonzero(near)
    return np.column_stack([columns, rows]) + 0.5
