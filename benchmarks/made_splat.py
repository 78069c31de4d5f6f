"""A room of Gaussians like those of captures, made from a mesh: sizes, opacities and harmonics are spread as theirs."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np

from render_agent.scene import Scene, load_scene
from render_agent.scene.conversion import as_splat, stratified_samples

HOUSE = os.environ.get("RENDER_AGENT_BENCHMARK_HOUSE", "../shared/data/scenes/aws_small_house.ply")
"""A furnished house, used where it is there; else a bundled room is."""

ROOMS = Path(__file__).parents[1] / "scenes"


def source() -> Path:
    """Return the mesh that is sampled."""
    return Path(HOUSE) if Path(HOUSE).is_file() else min(ROOMS.rglob("*.ply"))


def captured_room(count: int, seed: int = 0) -> Scene:
    """Return `count` Gaussians on the surfaces of a house, spread as in captures.

    Half are seen through more than not, sizes differ by factors, all are flat, few millimetres off the
    surface; colours have harmonics of degree 3.
    """
    mesh = load_scene(source())
    scene = as_splat(mesh, count)
    gaussians = scene.gaussians
    assert gaussians is not None
    random = np.random.default_rng(seed)
    spacing = stratified_samples(mesh, 1000).spacing * np.sqrt(1000 / count)
    scales = spacing * np.exp(random.normal(0.0, 0.7, (count, 3)))
    scales[:, 2] *= 0.15
    harmonics = np.zeros((count, 16, 3), np.float32)
    harmonics[:, 0] = gaussians.harmonics[:, 0]
    harmonics[:, 1:] = random.normal(0, 0.05, (count, 15, 3))
    points = scene.points + random.normal(0, 0.003, (count, 3)).astype(np.float32)
    return replace(
        scene,
        points=points,
        gaussians=replace(
            gaussians,
            scales=scales.astype(np.float32),
            opacities=random.beta(0.9, 0.9, count).astype(np.float32),
            harmonics=harmonics,
        ),
    )
