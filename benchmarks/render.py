"""Milliseconds per view of each renderer.

    python -m benchmarks.render --output benchmarks/results/render.md

Runs of the renderers are interleaved, so that other load on the machine affects all of them equally. A run draws four
views of a furnished room (colour and depth); the result is the time per view of the fastest run.
"""

from __future__ import annotations

import time
from pathlib import Path

import click
import numpy as np

from benchmarks.harness import OUTPUT, machine, publish, table
from render_agent.render.make_renderer import make_renderer
from render_agent.render.renderer import Renderer
from render_agent.scans.camera import Camera
from render_agent.scans.scene import Scene

LOW, HIGH = np.array([0.0, 0.0, 0.0]), np.array([7.0, 5.0, 2.7])

BOXES = [
    ((0.3, 0.2, 0.0), (2.3, 1.1, 0.8)),
    ((2.9, 1.8, 0.7), (4.5, 2.8, 0.75)),
    ((3.0, 1.9, 0.0), (3.1, 2.0, 0.7)),
    ((4.3, 2.6, 0.0), (4.4, 2.7, 0.7)),
    ((5.9, 0.3, 0.0), (6.8, 0.9, 2.0)),
    ((5.0, 3.6, 0.0), (6.8, 4.8, 0.5)),
    ((0.2, 3.2, 0.0), (0.6, 4.8, 1.9)),
    ((2.4, 3.4, 0.0), (2.9, 3.9, 0.9)),
    ((4.8, 1.4, 0.0), (5.2, 1.8, 0.9)),
]
BALLS = [((1.2, 2.4, 0.4), 0.4), ((3.7, 2.3, 0.95), 0.2), ((5.6, 2.6, 1.9), 0.25)]

VIEWS = [
    Camera((1.6, 2.9, 1.5), -20.0, -10.0),
    Camera((5.4, 2.2, 1.6), 155.0, -15.0),
    Camera((3.6, 0.8, 1.5), 80.0, -5.0),
    Camera((4.4, 4.3, 1.6), -110.0, -25.0),
]

Patch = tuple[np.ndarray, np.ndarray, np.ndarray]


def _patches() -> list[Patch]:
    """Return every rectangle of the room as a corner and two edges, metres."""
    patches = []
    for low, high in [(LOW, HIGH), *BOXES]:
        corner, size = np.array(low), np.subtract(high, low)
        for axis in range(3):
            edges = [np.eye(3)[other] * size[other] for other in range(3) if other != axis]
            ends = (corner + np.eye(3)[axis] * end for end in (0.0, size[axis]))
            patches.extend((end, *edges) for end in ends)
    return patches


def _shade(points: np.ndarray, patch: int) -> np.ndarray:
    """Return the colours, (n, 3) uint8, of points (n, 3) on one patch: a base colour and a smooth pattern."""
    base = np.random.default_rng(patch).uniform(70, 220, 3)
    wave = 20 * np.sin(points @ [9.0, 11.0, 7.0]) + 10 * np.sin(points @ [41.0, 37.0, 53.0])
    return np.clip(base + wave[:, None], 0, 255).astype(np.uint8)


def _on_ball(centre: tuple[float, ...], radius: float, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return points (n, 3) on a sphere at longitudes 2 pi u and relative heights v in -1 to 1."""
    level, turn = np.sqrt(np.maximum(1 - v**2, 0)), 2 * np.pi * u
    ring = np.stack([level * np.cos(turn), level * np.sin(turn), v], axis=-1)
    return np.asarray(centre) + radius * ring


def _grid(columns: int, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return coordinates u and v in 0 to 1, (n,), and faces (2 columns rows, 3) of a grid."""
    u, v = np.meshgrid(np.linspace(0, 1, columns + 1), np.linspace(0, 1, rows + 1))
    corner = (np.arange(rows)[:, None] * (columns + 1) + np.arange(columns)).ravel()
    quads = np.column_stack([corner, corner + 1, corner + columns + 2, corner + columns + 1])
    return u.ravel(), v.ravel(), np.concatenate([quads[:, :3], quads[:, [0, 2, 3]]])


def _area() -> float:
    flat_area = sum(np.linalg.norm(a) * np.linalg.norm(b) for _, a, b in _patches())
    return float(flat_area + sum(4 * np.pi * radius**2 for _, radius in BALLS))


def _scene(
    name: str, parts: list[tuple[np.ndarray, np.ndarray]], faces: np.ndarray | None
) -> Scene:
    points = np.concatenate([part[0] for part in parts])
    points += np.random.default_rng(0).normal(0, 0.001, points.shape)
    return Scene(
        name,
        points.astype(np.float32),
        np.concatenate([part[1] for part in parts]),
        faces,
        0.0,
        float(HIGH[2]),
        np.array([LOW, HIGH]),
    )


def mesh_room(count: int) -> Scene:
    """Return the room as a mesh of about `count` faces of similar size."""
    step = np.sqrt(2 * _area() / count)
    parts, faces, num_points = [], [], 0
    for number, (corner, a, b) in enumerate(_patches()):
        u, v, triangles = _grid(*(max(1, round(np.linalg.norm(e) / step)) for e in (a, b)))
        points = corner + u[:, None] * a + v[:, None] * b
        parts.append((points, _shade(points, number)))
        faces.append(triangles + num_points)
        num_points += len(points)
    for number, (centre, radius) in enumerate(BALLS):
        u, v, triangles = _grid(
            max(3, round(2 * np.pi * radius / step)), max(2, round(np.pi * radius / step))
        )
        points = _on_ball(centre, radius, u, -np.cos(np.pi * v))
        parts.append((points, _shade(points, 100 + number)))
        faces.append(triangles + num_points)
        num_points += len(points)
    return _scene(f"{count:,} faces", parts, np.concatenate(faces).astype(np.int32))


def cloud_room(count: int) -> Scene:
    """Return the room as a cloud of about `count` points, spread evenly over its surface."""
    rng, density = np.random.default_rng(1), count / _area()
    parts = []
    for number, (corner, a, b) in enumerate(_patches()):
        area = np.linalg.norm(a) * np.linalg.norm(b)
        u, v = rng.random((2, round(area * density), 1))
        points = corner + u * a + v * b
        parts.append((points, _shade(points, number)))
    for number, (centre, radius) in enumerate(BALLS):
        u, v = rng.random((2, round(4 * np.pi * radius**2 * density)))
        points = _on_ball(centre, radius, u, 2 * v - 1)
        parts.append((points, _shade(points, 100 + number)))
    return _scene(f"{count:,} points", parts, None)


def milliseconds(renderer: Renderer, scene: Scene, width: int, height: int) -> float:
    """Draw every view once; return the mean time per view."""
    started_at = time.perf_counter()
    for camera in VIEWS:
        renderer.draw(scene, camera, width, height)
    return 1000 * (time.perf_counter() - started_at) / len(VIEWS)


@click.command()
@click.option("--renderers", default="rasteriser,pyrender", show_default=True)
@click.option("--scenes", default="150000f,1000000f,5000000f,1000000p,10000000p", show_default=True)
@click.option("--image-sizes", default="640x480,1024x1024", show_default=True)
@click.option("--rounds", default=5, show_default=True)
@OUTPUT
def main(renderers: str, scenes: str, image_sizes: str, rounds: int, output: Path | None) -> None:
    """Compare renderers. --scenes are numbers of faces (f) or points (p)."""
    names = renderers.split(",")
    instances = [make_renderer(name) for name in names]
    rows = []
    for size in scenes.split(","):
        scene = (mesh_room if size[-1] == "f" else cloud_room)(int(size[:-1]))
        for image_size in image_sizes.split(","):
            width, height = map(int, image_size.split("x"))
            for renderer in instances:
                # Upload and compilation are not timed.
                renderer.draw(scene, VIEWS[0], width, height)
            runs = [
                [milliseconds(renderer, scene, width, height) for renderer in instances]
                for _ in range(rounds)
            ]
            fastest_times = np.min(runs, axis=0)
            rows.append(
                [
                    scene.id,
                    image_size,
                    *(f"{ms:.1f} ({ms / fastest_times[0]:.1f}×)" for ms in fastest_times),
                ]
            )
            click.echo(rows[-1], err=True)
    for renderer in instances:
        renderer.close()
    note = f"Fastest of {rounds} interleaved runs of four views each; in brackets the ratio to {names[0]}."
    lines = [note, "", *table(["scene", "image size", *names], rows)]
    publish(output, "Milliseconds per view", lines, machine("numpy", "numba", "pyrender"))


if __name__ == "__main__":
    main()
