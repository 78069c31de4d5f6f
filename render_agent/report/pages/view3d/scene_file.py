"""Scene files of the 3D view, reduced to a size that browsers can handle. There is one file per scene."""

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
from render_agent.views.image_store import safe_name

# Browsers render this many smoothly; larger scenes are simplified.
MAX_FACES, MAX_POINTS = 150_000, 300_000
FINEST_METRES, COARSER_FACTOR = 0.01, 1.25  # first cell size of vertex clustering, and its growth
COMPRESSION_LEVEL = 2  # zlib level; 6 takes four times as long for 2 % fewer bytes
STEPS = 65_535  # position steps along the longest side of the scene: 0.3 mm for 20 m

# Scale of a splat in metres: MIN_SCALE_METRES * 2 ** (byte / SCALE_STEPS), up to 31 m.
MIN_SCALE_METRES, SCALE_STEPS = 0.0005, 16

AROUND_METRES = 0.5  # splats farther outside the room are dropped


def scene_file_path(scene: str) -> str:
    """Return the path of a scene's file relative to the report."""
    return f"scenes3d/{safe_name(scene)}.js"


def scene_script(scene: Scene) -> bytes:
    """Return a script that passes a scene to the 3D view.

    It is a script because pages opened from disk cannot load data files. The arrays are compressed with
    zlib and encoded in base64: positions (n, 3) uint16 in steps, colours (n, 3) uint8, and faces (m, 3)
    uint32. For splats, faces are replaced by scales (n, 3) uint8 (see SCALE_STEPS), rotations (n, 4)
    int8 (divided by 127) and opacities (n,) uint8.
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
        logs = np.log2(np.maximum(shapes.scales, MIN_SCALE_METRES) / MIN_SCALE_METRES)
        numbers += np.clip(np.rint(SCALE_STEPS * logs), 0, 255).astype(np.uint8).tobytes()
        numbers += np.rint(127 * shapes.rotations).astype(np.int8).tobytes()
        numbers += np.rint(255 * shapes.opacities).astype(np.uint8).tobytes()
    text = base64.b64encode(zlib.compress(numbers, COMPRESSION_LEVEL)).decode()
    return f'renderAgentScene({json.dumps(header)}, "{text}");\n'.encode()


def most_visible(scene: Scene) -> Scene:
    """Return a splat with the MAX_POINTS largest and most opaque Gaussians in and around the room."""
    shapes = scene.gaussians
    assert shapes is not None
    low, high = scene.bounds[0] - AROUND_METRES, scene.bounds[1] + AROUND_METRES
    near = ((scene.points >= low) & (scene.points <= high)).all(axis=1)
    cross_sections = np.sort(shapes.scales, axis=1)[:, 1:].prod(axis=1)
    order = np.argsort(-np.where(near, shapes.opacities * cross_sections, -1.0), kind="stable")
    indices = np.sort(order[: min(MAX_POINTS, int(near.sum()))])
    return replace(
        scene,
        points=scene.points[indices],
        colours=scene.colours[indices],
        gaussians=shapes.where(indices),
    )


def coarser(
    scene: Scene,
) -> tuple[NDArray[np.float32], NDArray[np.uint8], NDArray[np.int32]]:
    """Return a scene's points, colours and faces, clustered to at most MAX_FACES faces, or MAX_POINTS points for a
    cloud.

    Vertices in a cell are replaced by their mean, and degenerate faces are removed (Rossignac and
    Borrel 1993, "Multi-resolution 3D approximations").
    """
    no_faces = np.empty((0, 3), np.int32)
    faces = no_faces if scene.faces is None else scene.faces
    points, colours, cell = scene.points, scene.colours, FINEST_METRES
    while len(faces) > MAX_FACES or (scene.is_cloud and len(points) > MAX_POINTS):
        points, colours, faces = _cluster_vertices(scene, cell)
        cell *= COARSER_FACTOR
    return points, colours, faces


def _cluster_vertices(scene: Scene, cell: float) -> tuple[Any, Any, Any]:
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
        _, indices = np.unique(np.sort(faces, axis=1), axis=0, return_index=True)
        faces = faces[np.sort(indices)]
    return (
        mean(scene.points).astype(np.float32),
        np.rint(mean(scene.colours)).astype(np.uint8),
        faces,
    )
