"""A scene as a file for the 3D view: small enough for a browser, written once a scene."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.free_space.surface import cell_keys
from render_agent.scans.scene import Scene
from render_agent.views.picture_store import safe_name

MAX_FACES, MAX_POINTS = 150_000, 300_000
"""A browser draws so many at ease; larger scenes are made coarser."""

FINEST_METRES, COARSER_FACTOR = 0.01, 1.25
"""Metres: vertices that share such a cell become one; cells grow by the factor until few enough are left."""

DEFLATED = 2
"""How hard it is compressed: 6 takes four times as long for 2 % fewer bytes."""

STEPS = 65_535
"""Positions are whole steps of the scene's longest side divided by so many: 0.3 mm of a hall of 20 m."""


LEAST_SCALE_METRES, SCALE_STEPS = 0.0005, 16
"""A splat's standard deviation is the first times two to the power of a byte divided by the second, up to 31 m."""

AROUND_METRES = 0.5
"""Of a splat what lies farther outside of the room is left out."""


def scene_file(scene: str) -> str:
    """Return where the file of a scene lies, relative to the report."""
    return f"scenes3d/{safe_name(scene)}.js"


def scene_script(scene: Scene) -> bytes:
    """Return a scene as a script that hands it to the 3D view.

    Pages that are opened from disk may load scripts and nothing else. The numbers are deflated and in
    base64: positions as steps (n, 3) uint16, colours (n, 3) uint8, faces (m, 3) uint32; of a splat in the
    place of faces scales (n, 3) uint8 (see SCALE_STEPS), rotations (n, 4) int8 in parts of 127, opacities (n,)
    uint8.
    """
    if scene.gaussians is not None:
        scene = most_visible(scene)
    points, colours, faces = coarser(scene)
    low = points.min(axis=0).astype(np.float64)
    step = max(float(np.ptp(points, axis=0).max()), 1e-6) / STEPS
    header = {
        "vertices": len(points),
        "faces": len(faces),
        "splats": scene.gaussians is not None,
        "low": low.tolist(),
        "step": step,
    }
    steps = np.rint((points - low) / step).astype("<u2")
    numbers = steps.tobytes() + colours.tobytes() + faces.astype("<u4").tobytes()
    if (shapes := scene.gaussians) is not None:
        logs = np.log2(np.maximum(shapes.scales, LEAST_SCALE_METRES) / LEAST_SCALE_METRES)
        numbers += np.clip(np.rint(SCALE_STEPS * logs), 0, 255).astype(np.uint8).tobytes()
        numbers += np.rint(127 * shapes.rotations).astype(np.int8).tobytes()
        numbers += np.rint(255 * shapes.opacities).astype(np.uint8).tobytes()
    text = base64.b64encode(zlib.compress(numbers, DEFLATED)).decode()
    return f'renderAgentScene({json.dumps(header)}, "{text}");\n'.encode()


def most_visible(scene: Scene) -> Scene:
    """Return a splat with those MAX_POINTS Gaussians in and around the room that cover and hide most."""
    shapes = scene.gaussians
    assert shapes is not None
    low, high = scene.bounds[0] - AROUND_METRES, scene.bounds[1] + AROUND_METRES
    near = ((scene.points >= low) & (scene.points <= high)).all(axis=1)
    largest = np.sort(shapes.scales, axis=1)[:, 1:].prod(axis=1)
    order = np.argsort(-np.where(near, shapes.opacities * largest, -1.0), kind="stable")
    kept = np.sort(order[: min(MAX_POINTS, int(near.sum()))])
    return replace(
        scene,
        points=scene.points[kept],
        colours=scene.colours[kept],
        gaussians=shapes.where(kept),
    )


def coarser(
    scene: Scene,
) -> tuple[NDArray[np.float32], NDArray[np.uint8], NDArray[np.int32]]:
    """Return the points (n, 3), colours (n, 3) and faces (m, 3) of a scene, few enough for a browser.

    The vertices in a cell become their mean, and so do their colours; faces that have lost their area go
    (Rossignac and Borrel 1993, "Multi-resolution 3D approximations"). A cloud has no faces.
    """
    none = np.empty((0, 3), np.int32)
    faces = none if scene.faces is None else scene.faces
    points, colours, cell = scene.points, scene.colours, FINEST_METRES
    while len(faces) > MAX_FACES or (scene.is_cloud and len(points) > MAX_POINTS):
        points, colours, faces = _clustered(scene, cell)
        cell *= COARSER_FACTOR
    return points, colours, faces


def _clustered(scene: Scene, cell: float) -> tuple[Any, Any, Any]:
    _, cluster = np.unique(cell_keys(scene.points, cell), return_inverse=True)
    count = np.bincount(cluster)

    def mean(values: NDArray[Any]) -> NDArray[np.float64]:
        sums = [np.bincount(cluster, values[:, axis]) for axis in range(3)]
        return np.column_stack(sums) / count[:, None]

    faces = np.empty((0, 3), np.int32)
    if scene.faces is not None:
        faces = cluster[scene.faces].astype(np.int32)
        a, b, c = faces.T
        faces = faces[(a != b) & (b != c) & (a != c)]
        _, first = np.unique(np.sort(faces, axis=1), axis=0, return_index=True)
        faces = faces[np.sort(first)]
    return (
        mean(scene.points).astype(np.float32),
        np.rint(mean(scene.colours)).astype(np.uint8),
        faces,
    )
