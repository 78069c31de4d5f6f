"""The default pose of deformed glTF meshes: morph targets with their default weights, and skins."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.formats.textured.gltf.gltf_file import GltfFile, Tree
from render_agent.scans.formats.textured.gltf.scene_graph import FloatArray, Placement, SceneGraph

VERTICES_PER_CHUNK = 1 << 18  # vertices skinned at a time, to bound memory


def morph_weights(tree: Tree, placement: Placement) -> tuple[float, ...]:
    """Return the default weights of a placed mesh's morph targets; those of its node take precedence."""
    mesh = tree["meshes"][placement.mesh]
    weights = placement.node.get("weights") or mesh.get("weights") or ()
    return tuple(float(weight) for weight in weights)


def morph(
    gltf: GltfFile, primitive: Tree, name: str, values: NDArray[Any], weights: tuple[float, ...]
) -> NDArray[Any]:
    """Add the weighted morph targets of a primitive to its attribute `name`, (n, width)."""
    for weight, target in zip(weights, primitive.get("targets") or (), strict=False):
        if weight and name in target:
            change = gltf.values(target[name])
            if change.shape != values.shape:
                raise ValueError("a morph target does not match its mesh")
            values = values + weight * change
    return values


def is_skinned(placement: Placement, primitive: Tree) -> bool:
    """Return True if the primitive follows the joints of a skin instead of its node."""
    return "skin" in placement.node and "JOINTS_0" in primitive["attributes"]


def skin(
    gltf: GltfFile, graph: SceneGraph, placement: Placement, primitive: Tree, points: FloatArray
) -> FloatArray:
    """Return the vertices of a skinned primitive, (n, 3), in the scene."""
    entry = gltf.tree["skins"][placement.node["skin"]]
    joints = np.stack([graph.matrix(int(joint)) for joint in entry["joints"]])
    if "inverseBindMatrices" in entry:
        inverses = gltf.values(entry["inverseBindMatrices"])[: len(joints)].astype(np.float64)
        joints = joints @ inverses.reshape(-1, 4, 4).transpose(0, 2, 1)
    numbers, weights = _influences(gltf, primitive)
    if len(numbers) != len(points):
        raise ValueError("the numbers of its vertex attributes differ")
    result = np.zeros_like(points)
    for first in range(0, len(points), VERTICES_PER_CHUNK):
        rows = slice(first, first + VERTICES_PER_CHUNK)
        for number, weight in zip(numbers[rows].T, weights[rows].T, strict=True):
            matrices = joints[number]
            positions = (
                np.einsum("nij,nj->ni", matrices[:, :3, :3], points[rows]) + matrices[:, :3, 3]
            )
            result[rows] += weight[:, None] * positions
    return result


def _influences(gltf: GltfFile, primitive: Tree) -> tuple[NDArray[np.intp], FloatArray]:
    """Return the joint numbers and weights of the vertices, (n, 4 k) each; weights add up to 1."""
    numbers: list[NDArray[np.intp]] = []
    weights: list[FloatArray] = []
    while f"JOINTS_{len(numbers)}" in primitive["attributes"]:
        joints = gltf.attribute(primitive, f"JOINTS_{len(numbers)}")
        shares = gltf.attribute(primitive, f"WEIGHTS_{len(weights)}")
        if joints is None or shares is None or joints.shape != shares.shape:
            raise ValueError("its joints and weights do not match")
        numbers.append(joints.astype(np.intp))
        weights.append(np.nan_to_num(shares.astype(np.float64)))
    all_numbers, all_weights = np.concatenate(numbers, axis=1), np.concatenate(weights, axis=1)
    total = all_weights.sum(axis=1, keepdims=True)
    # Vertices without weights follow their first joint.
    all_weights[:, :1] += total == 0
    return all_numbers, all_weights / np.where(total == 0, 1, total)
