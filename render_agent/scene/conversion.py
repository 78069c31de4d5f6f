"""Scans of one kind made from those of another: meshes sampled as clouds or as splats, splats as clouds.

What is made so is a conversion, not a capture: it holds no more than what it was made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from render_agent.errors import SceneError
from render_agent.scene.formats.ply.binary import binary_ply
from render_agent.scene.gaussians import CONSTANT_HARMONIC, Gaussians
from render_agent.scene.model import Scene
from render_agent.scene.srgb import LEVEL_OF_LIGHT, LIGHT_OF_LEVEL
from render_agent.scene.texture import Wrap, wrapped

LEAST = 1e-7
"""Opacities and sizes are written as logarithms, in which there is no nothing and no whole."""


def splat_ply(
    points: NDArray[np.float32], gaussians: Gaussians, comments: Sequence[str] = ()
) -> bytes:
    """Return a splat, z up, as the bytes of a binary PLY file; equal splats, equal bytes.

    points: (n, 3) metres. comments: lines of the header. Harmonics are written as they are: those of a
    splat that was turned have to be constant.
    """
    varying = gaussians.harmonics[:, 1:].transpose(0, 2, 1).reshape(len(points), -1)
    opacities = np.clip(gaussians.opacities.astype(np.float64), LEAST, 1 - LEAST)
    names = [*"xyz", "nx", "ny", "nz", *(f"f_dc_{i}" for i in range(3))]
    names += [*(f"f_rest_{i}" for i in range(varying.shape[1])), "opacity"]
    names += [*(f"scale_{i}" for i in range(3)), *(f"rot_{i}" for i in range(4))]
    rows = np.zeros((len(points), len(names)), "<f4")
    last = len(names) - 8
    rows[:, :3] = points
    rows[:, 6:9] = gaussians.harmonics[:, 0]
    rows[:, 9:last] = varying
    rows[:, last] = np.log(opacities / (1 - opacities))
    rows[:, last + 1 : last + 4] = np.log(np.maximum(gaussians.scales, LEAST))
    rows[:, last + 4 :] = gaussians.rotations
    header = ["ply", "format binary_little_endian 1.0", *(f"comment {line}" for line in comments)]
    header += ["comment up z", f"element vertex {len(points)}"]
    header += [*(f"property float {name}" for name in names), "end_header", ""]
    return b"".join(["\n".join(header).encode("ascii", "replace"), rows.data])


SAMPLES = 1_000_000
"""Points or Gaussians that a mesh becomes."""

CHUNK = 1 << 18
"""Samples that are made at a time; bounds the memory that it takes."""

SPREAD_SPACINGS = 0.7
"""The standard deviation of a Gaussian within its surface, in distances between samples: with it, the
chance that light gets through a wall is far below one in a hundred, and edges stay sharp."""

THICKNESS_METRES = 0.001
OPACITY = 0.95

NO_SURFACE = (
    "{scene} is {kind}, which has no faces to make this of: give a mesh, or make one of it with a program that"
    " reconstructs surfaces, such as MeshLab"
)

SOLID_OPACITY = 0.5
"""A Gaussian that absorbs no more than this is no point of a cloud."""


@dataclass(frozen=True, eq=False)
class Samples:
    """Points on the surface of a mesh, evenly spread.

    points: (n, 3) float32, metres. normals: (n, 3) float32, unit length. colours: (n, 3) uint8.
    spacing: metres, the side of the square that each stands for.
    """

    points: NDArray[np.float32]
    normals: NDArray[np.float32]
    colours: NDArray[np.uint8]
    spacing: float


def convert(scene: Scene, kind: str, count: int = SAMPLES) -> Scene:
    """Return a scan as one of another kind, its last note what it was made of.

    kind: mesh, cloud or splat. count: samples of a mesh. SceneError where the one cannot be made of the
    other.
    """
    return {"mesh": as_mesh, "cloud": as_cloud, "splat": as_splat}[kind](scene, count)


def written(scene: Scene) -> bytes:
    """Return a converted scan as the bytes of a PLY file, z up, that says what it is."""
    note = scene.notes[-1] if scene.notes else ""
    if scene.gaussians is not None:
        return splat_ply(scene.points, scene.gaussians, [note])
    return binary_ply(scene.points, scene.colours, scene.faces, note)


def as_mesh(scene: Scene, count: int = SAMPLES) -> Scene:
    """Return a mesh with a colour at each vertex. SceneError for anything else."""
    if scene.faces is None:
        raise SceneError(NO_SURFACE.format(scene=scene.id, kind=_kind(scene)))
    return replace(scene, texture=None, notes=(*scene.notes, "a conversion: vertices of a mesh"))


def as_cloud(scene: Scene, count: int = SAMPLES) -> Scene:
    """Return a mesh as a cloud of `count` points, a splat as the centres of what is not seen through.

    A cloud stays what it is. SceneError where nothing of a splat is solid.
    """
    if scene.is_cloud and scene.gaussians is None:
        return replace(scene, notes=(*scene.notes, "a conversion: points of a cloud"))
    note = f"a conversion: points of {_kind(scene)}"
    if scene.gaussians is not None:
        solid = scene.gaussians.opacities > SOLID_OPACITY
        if not solid.any():
            raise SceneError(f"no Gaussian of {scene.id} absorbs more than half of the light")
        return replace(
            scene,
            points=scene.points[solid],
            colours=scene.colours[solid],
            gaussians=None,
            notes=(*scene.notes, note),
        )
    samples = stratified_samples(scene, count)
    return replace(
        scene,
        points=samples.points,
        colours=samples.colours,
        faces=None,
        texture=None,
        notes=(*scene.notes, note),
    )


def as_splat(scene: Scene, count: int = SAMPLES) -> Scene:
    """Return a mesh as a splat of `count` flat Gaussians, its colours as they are. SceneError for anything else."""
    samples = stratified_samples(scene, count)
    size = len(samples.points)
    scales = np.full((size, 3), SPREAD_SPACINGS * samples.spacing, np.float32)
    scales[:, 2] = min(THICKNESS_METRES, samples.spacing / 10)
    harmonics = ((samples.colours / np.float32(255) - 0.5) / np.float32(CONSTANT_HARMONIC))[:, None]
    gaussians = Gaussians(
        scales,
        _turns_to(samples.normals),
        np.full(size, OPACITY, np.float32),
        np.ascontiguousarray(harmonics, np.float32),
        np.eye(3),
    )
    return replace(
        scene,
        points=samples.points,
        colours=samples.colours,
        faces=None,
        texture=None,
        gaussians=gaussians,
        notes=(*scene.notes, f"a conversion: a flat Gaussian for each sample of {_kind(scene)}"),
    )


def _kind(scene: Scene) -> str:
    if scene.gaussians is not None:
        return "a splat"
    return "a cloud" if scene.is_cloud else "a mesh"


def stratified_samples(scene: Scene, count: int, seed: int = 0) -> Samples:
    """Return `count` samples of a mesh's surface, the same for the same seed. SceneError for another scan."""
    if scene.faces is None:
        raise SceneError(NO_SURFACE.format(scene=scene.id, kind=_kind(scene)))
    corners = scene.points[scene.faces].astype(np.float64)
    cross = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    doubles = np.linalg.norm(cross, axis=1)
    totals = np.cumsum(doubles / 2)
    area = float(totals[-1])
    if not area > 0:
        raise SceneError(f"the faces of {scene.id} have no area")
    random = np.random.default_rng(seed)
    points = np.empty((count, 3), np.float32)
    normals = np.empty((count, 3), np.float32)
    colours = np.empty((count, 3), np.uint8)
    for first in range(0, count, CHUNK):
        size = min(CHUNK, count - first)
        along = (first + np.arange(size) + random.random(size)) / count * area
        faces = np.minimum(np.searchsorted(totals, along, "right"), len(totals) - 1)
        u, v = random.random((2, size, 1))
        u, v = np.where(u + v > 1, 1 - u, u), np.where(u + v > 1, 1 - v, v)
        weights = np.hstack([1 - u - v, u, v])
        part = slice(first, first + size)
        points[part] = np.einsum("nk,nkd->nd", weights, corners[faces])
        normals[part] = cross[faces] / np.maximum(doubles[faces], 1e-20)[:, None]
        colours[part] = _colours(scene, faces, weights)
    return Samples(points, normals, colours, float(np.sqrt(area / count)))


def _colours(
    scene: Scene, faces: NDArray[np.intp], weights: NDArray[np.float64]
) -> NDArray[np.uint8]:
    """Return the colours, (n, 3), at places on faces (n,), given by the weights of their corners, (n, 3)."""
    assert scene.faces is not None
    corners = scene.faces[faces]
    mixed = np.einsum("nk,nkd->nd", weights, scene.colours[corners])
    colours = np.asarray(np.rint(mixed), np.uint8)
    texture = scene.texture
    if texture is None:
        return colours
    own = texture.face_materials[faces]
    for index in np.unique(own):
        material = texture.materials[index]
        if material.picture is None:  # its colour is in the vertices' already
            continue
        chosen = np.flatnonzero(own == index)
        uv = np.einsum("nk,nkd->nd", weights[chosen], texture.uv[corners[chosen]])
        height, width, _ = material.picture.shape
        column = _texel(uv[:, 0], width, material.wrap[0])
        row = _texel(uv[:, 1], height, material.wrap[1])
        colours[chosen] = texels = material.picture[row, column, :3]
        light = np.asarray(material.tint[:3])
        if texture.vertex_tints is not None:
            tints = LIGHT_OF_LEVEL[texture.vertex_tints[corners[chosen]]]
            light = light * np.einsum("nk,nkd->nd", weights[chosen], tints)
        if (light != 1).any():
            steps = LIGHT_OF_LEVEL[texels] * light * (len(LEVEL_OF_LIGHT) - 1) + 0.5
            colours[chosen] = LEVEL_OF_LIGHT[np.clip(steps, 0, len(LEVEL_OF_LIGHT) - 1).astype(int)]
    return colours


def _texel(along: NDArray[np.float64], size: int, wrap: Wrap) -> NDArray[np.intp]:
    """Return the texel, (n,), under places along one side of a picture, 1 its length."""
    return np.clip(np.floor(wrapped(along, wrap) * size), 0, size - 1).astype(np.intp)


def _turns_to(normals: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return unit quaternions, (n, 4), that turn the z axis to unit normals, (n, 3)."""
    x, y, z = normals.T
    # half-way between both; straight down any level axis will do
    quaternions = np.stack([1 + z, -y, x, np.zeros_like(z)], axis=1)
    quaternions[z < -0.9999] = (0, 1, 0, 0)
    return np.asarray(quaternions / np.linalg.norm(quaternions, axis=1, keepdims=True), np.float32)
