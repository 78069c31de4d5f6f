"""A room of Gaussians like those of captures, made from a mesh: sizes, opacities and harmonics are spread as theirs."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import trimesh

from render_agent.scene import Scene, load_scene
from render_agent.scene.gaussians import CONSTANT_HARMONIC, Gaussians

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
    assert mesh.faces is not None
    random = np.random.default_rng(seed)
    surface = trimesh.Trimesh(mesh.points, mesh.faces, process=False)
    points, faces = trimesh.sample.sample_surface(surface, count, seed=seed)
    colours = mesh.colours[mesh.faces[faces, 0]]
    normals = surface.face_normals[faces]
    turns = np.column_stack([1 + normals[:, 2], -normals[:, 1], normals[:, 0], np.zeros(count)])
    turns[normals[:, 2] < -0.9999] = (0, 1, 0, 0)
    scales = np.sqrt(surface.area / count) * np.exp(random.normal(0.0, 0.7, (count, 3)))
    scales[:, 2] *= 0.15
    harmonics = random.normal(0, 0.05, (count, 16, 3))
    harmonics[:, 0] = (colours / 255 - 0.5) / CONSTANT_HARMONIC
    gaussians = Gaussians(
        scales.astype(np.float32),
        (turns / np.linalg.norm(turns, axis=1, keepdims=True)).astype(np.float32),
        random.beta(0.9, 0.9, count).astype(np.float32),
        harmonics.astype(np.float32),
        np.eye(3),
    )
    points = points + random.normal(0, 0.003, (count, 3))
    return replace(
        mesh,
        points=points.astype(np.float32),
        colours=colours,
        faces=None,
        texture=None,
        gaussians=gaussians,
    )
