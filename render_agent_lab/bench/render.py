"""Milliseconds of processor time per view of each renderer.

    python -m render_agent_lab.bench.render --output render_agent_lab/bench/results/render.md

Runs of the renderers are interleaved, so that other load on the machine affects all of them equally. A run draws four
views of a furnished room (colour and depth); the result is the processor time per view, of all threads, of the fastest
run. `depth` is the rasteriser without colours. `embree` casts the primary rays of the views with Open3D, which gives
depth and faces but no colours; its rays are made beforehand. A second table shows how many faces culling could skip.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from itertools import product
from pathlib import Path

import click
import numpy as np

from render_agent.render.make_renderer import make_renderer
from render_agent.render.projection import projection
from render_agent.render.rasteriser.blocks import FACES_PER_BLOCK, mesh_blocks, visible_boxes
from render_agent.render.rasteriser.rasteriser import Rasteriser
from render_agent.render.renderer import Renderer, without_colours
from render_agent.scans.camera import Camera
from render_agent.scans.scene import Scene
from render_agent_lab.bench.harness import OUTPUT, machine, publish, table

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
    patches: list[Patch] = []
    for low, high in np.array([(LOW, HIGH), *BOXES]):
        corner, size = low, high - low
        for axis in range(3):
            right, up = (np.eye(3)[other] * size[other] for other in range(3) if other != axis)
            ends = (corner + np.eye(3)[axis] * end for end in (0.0, size[axis]))
            patches.extend((end, right, up) for end in ends)
    return patches


def _shade(points: np.ndarray, patch: int) -> np.ndarray:
    """Return the colours, (n, 3) uint8, of points (n, 3) on one patch: a base colour and a smooth pattern."""
    base = np.random.default_rng(patch).uniform(70, 220, 3)
    wave = 20 * np.sin(points @ [9.0, 11.0, 7.0]) + 10 * np.sin(points @ [41.0, 37.0, 53.0])
    colours: np.ndarray = np.clip(base + wave[:, None], 0, 255).astype(np.uint8)
    return colours


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


CULLING_NOTE = (
    "Shares of the faces, in percent. Blocks outside the view are never touched, and hidden blocks only until what hides"
    " them is drawn, so the third column is a lower bound for culling by blocks."
)
FLOOR_NOTE = (
    "Triangles drawn one by one, as in earlier versions, and row by row, interleaved with one thread (10,000, 100,000 and"
    " 1,000,000 faces): 1.9, 5.2 and 19.2 ms against 1.8, 3.7 and 10.2 ms at 320x240, and 4.0, 7.0 and 24.1 ms against"
    " 4.0, 6.6 and 14.5 ms at 448x448. The time is halved only where it goes into faces. With fewer faces it goes into pixels, about 20 ns each"
    " in double precision, half of it for colours."
)
CULLING_HEAD = (
    "image size",
    "faces",
    "in blocks in view",
    "in blocks with a visible pixel",
    "visible",
)

View = Callable[[Camera], object]  # draws a camera's view


def view_of(name: str, scene: Scene, size: tuple[int, int], threads: int) -> View:
    """Return a function that draws a scene with a renderer, by its name."""
    if name == "embree":
        return _embree(scene, size, threads)
    is_depth = name == "depth"
    renderer = _renderer(Rasteriser.name if is_depth else name, threads)
    if is_depth:
        renderer = without_colours(renderer)
    return lambda camera: renderer.draw(scene, camera, *size)


@cache
def _renderer(name: str, threads: int) -> Renderer:
    return Rasteriser(threads) if name == Rasteriser.name else make_renderer(name)


def _embree(scene: Scene, size: tuple[int, int], threads: int) -> View:
    import open3d

    caster = open3d.t.geometry.RaycastingScene(nthreads=threads)
    tensor = open3d.core.Tensor.from_numpy
    assert scene.faces is not None
    caster.add_triangles(tensor(scene.points), tensor(scene.faces.astype(np.uint32)))
    rays = {
        camera: caster.create_rays_pinhole(
            tensor(camera.intrinsics(*size)), tensor(np.linalg.inv(camera.pose)), *size
        )
        for camera in VIEWS
    }
    return lambda camera: caster.cast_rays(rays[camera], nthreads=threads)


def milliseconds(view: View) -> float:
    """Draw every view once; return the mean processor time per view."""
    started_at = time.process_time()
    for camera in VIEWS:
        view(camera)
    return 1000 * (time.process_time() - started_at) / len(VIEWS)


def count_faces(scene: Scene, size: tuple[int, int]) -> list[str]:
    """Return the number of faces of a mesh, and the share in blocks within the view, in blocks with a visible pixel, and
    visible in a pixel.
    """
    blocks, renderer = mesh_blocks(scene), _renderer(Rasteriser.name, 1)
    place = np.argsort(blocks.order)
    shares = []
    for camera in VIEWS:
        view = visible_boxes(blocks.boxes, projection(camera, *size), *size)
        primitive = renderer.draw(scene, camera, *size).primitive
        assert primitive is not None
        shown = np.unique(primitive[primitive >= 0])
        shown_blocks = len(np.unique(place[shown] // FACES_PER_BLOCK))
        num_blocks = len(blocks.boxes)
        shares.append(
            [len(view.blocks) / num_blocks, shown_blocks / num_blocks, len(shown) / len(place)]
        )
    return [f"{len(place):,}", *(f"{100 * share:.0f}" for share in np.mean(shares, axis=0))]


@click.command()
@click.option("--renderers", default="rasteriser,depth,embree,pyrender", show_default=True)
@click.option("--scenes", default="10000f,100000f,1000000f", show_default=True)
@click.option("--image-sizes", default="320x240,448x448,640x480", show_default=True)
@click.option("--threads", default="1,2", show_default=True, help="Of all renderers but pyrender.")
@click.option("--rounds", default=5, show_default=True)
@OUTPUT
def main(
    renderers: str, scenes: str, image_sizes: str, threads: str, rounds: int, output: Path | None
) -> None:
    """Compare renderers. --scenes are numbers of faces (f) or points (p)."""
    names, rows, faces = renderers.split(","), [], []
    for count in scenes.split(","):
        scene = (mesh_room if count[-1] == "f" else cloud_room)(int(count[:-1]))
        if scene.faces is not None:
            for image_size in image_sizes.split(","):
                width, height = map(int, image_size.split("x"))
                faces.append([image_size, *count_faces(scene, (width, height))])
        for image_size, num_threads in product(image_sizes.split(","), threads.split(",")):
            width, height = map(int, image_size.split("x"))
            views = [view_of(name, scene, (width, height), int(num_threads)) for name in names]
            for view in views:
                view(VIEWS[0])  # upload and compilation are not timed
            runs = [[milliseconds(view) for view in views] for _ in range(rounds)]
            times = np.min(runs, axis=0)
            cells = (f"{ms:.1f} ({ms / times[0]:.1f}×)" for ms in times)
            rows.append([scene.id, image_size, num_threads, *cells])
            click.echo(rows[-1], err=True)
    note = (
        f"Processor time of the fastest of {rounds} interleaved runs of four views each; in brackets the ratio to"
        f" {names[0]}. Embree casts primary rays only, without colours. pyrender chooses its own number of threads."
    )
    lines = [note, "", *table(["scene", "image size", "threads", *names], rows)]
    lines += ["", FLOOR_NOTE, "", CULLING_NOTE, "", *table(CULLING_HEAD, faces)]
    title = "Milliseconds of processor time per view"
    publish(output, title, lines, machine("numpy", "numba", "open3d", "open3d-cpu", "pyrender"))


if __name__ == "__main__":
    main()
