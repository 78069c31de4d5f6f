"""The nodes of a glTF scene: where each mesh is placed, how often, and whether it is visible."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.formats.textured.gltf.gltf_file import GltfFile, Tree, extension

FloatArray = NDArray[np.float64]

VISIBILITY, INSTANCING = "KHR_node_visibility", "EXT_mesh_gpu_instancing"


@dataclass(frozen=True, eq=False)
class Placement:
    mesh: int
    node: Tree
    matrix: FloatArray  # (4, 4), from the mesh to the scene
    count: int = 1  # number of instances of the mesh

    def matrices(self, gltf: GltfFile) -> Iterator[FloatArray]:
        """Yield the (4, 4) matrix of each instance."""
        attributes = extension(self.node, INSTANCING).get("attributes") or {}
        names = ("TRANSLATION", "ROTATION", "SCALE")
        parts = [gltf.values(attributes[name]) if name in attributes else None for name in names]
        if all(part is None for part in parts):
            yield self.matrix
            return
        for row in range(self.count):
            move, turn, scale = (None if part is None else part[row] for part in parts)
            yield self.matrix @ _compose(move, turn, scale)


class SceneGraph:
    """The nodes of a file: visible meshes in the scene it shows, and the matrices of all nodes. Raises ValueError."""

    def __init__(self, tree: Tree) -> None:
        nodes = tree.get("nodes") or []
        children = {child for node in nodes for child in node.get("children") or []}
        roots = sorted({*range(len(nodes))} - children)
        scenes = tree.get("scenes") or [{"nodes": roots}]
        self.placements: list[Placement] = []
        self._matrices: dict[int, FloatArray] = {}
        scene_nodes = scenes[tree.get("scene", 0)].get("nodes") or []
        for number, is_visible in self._walk(tree, scene_nodes):
            node = nodes[number]
            if is_visible and "mesh" in node:
                count = _instance_count(tree, node)
                self.placements.append(
                    Placement(int(node["mesh"]), node, self._matrices[number], count)
                )
        # Joints of skins may be outside the scene.
        for _ in self._walk(tree, [root for root in roots if root not in self._matrices]):
            pass

    def matrix(self, node: int) -> FloatArray:
        """Return the (4, 4) matrix from a node to the scene."""
        return self._matrices[node]

    def _walk(self, tree: Tree, roots: Iterable[int]) -> Iterator[tuple[int, bool]]:
        """Compute the matrices of nodes and their descendants; yield each with its visibility."""
        pending = [(root, np.eye(4), True) for root in reversed(list(roots))]
        while pending:
            number, outer, is_visible = pending.pop()
            if number in self._matrices:
                raise ValueError("its nodes do not form a tree")
            node = tree["nodes"][number]
            matrix = self._matrices[number] = outer @ _node_matrix(node)
            is_visible = (
                is_visible and extension(node, VISIBILITY).get("visible", True) is not False
            )
            yield number, is_visible
            pending += [
                (child, matrix, is_visible) for child in reversed(node.get("children") or [])
            ]


def _instance_count(tree: Tree, node: Tree) -> int:
    attributes = extension(node, INSTANCING).get("attributes") or {}
    counts = {int(tree["accessors"][number]["count"]) for number in attributes.values()}
    if len(counts) > 1:
        raise ValueError("the numbers of its instance attributes differ")
    return counts.pop() if counts else 1


def _node_matrix(node: Tree) -> FloatArray:
    """Return a node's (4, 4) matrix, given directly or as translation, rotation and scale."""
    if "matrix" in node:
        return np.asarray(node["matrix"], np.float64).reshape(4, 4).T
    return _compose(node.get("translation"), node.get("rotation"), node.get("scale"))


def _compose(move: object, turn: object, scale: object) -> FloatArray:
    """Return the (4, 4) matrix that scales, then rotates by a quaternion (x, y, z, w), then moves; None skips."""
    from scipy.spatial.transform import Rotation

    matrix = np.eye(4)
    if turn is not None:
        quaternion = np.asarray(turn, np.float64).reshape(4)
        if not np.linalg.norm(quaternion) > 0:
            raise ValueError("a rotation is invalid")
        matrix[:3, :3] = Rotation.from_quat(quaternion).as_matrix()
    if scale is not None:
        matrix[:3, :3] *= np.asarray(scale, np.float64).reshape(3)
    if move is not None:
        matrix[:3, 3] = np.asarray(move, np.float64).reshape(3)
    return matrix
