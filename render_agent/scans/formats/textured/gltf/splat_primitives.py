"""Read Gaussian splats in glTF files, uncompressed or as SPZ.

Format: the extension KHR_gaussian_splatting and its compression with SPZ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.formats.cleaning import Scan, transform_scan, unreadable
from render_agent.scans.formats.declared import Declared
from render_agent.scans.formats.splats.assemble import COEFFICIENTS, check_count, splat_scan
from render_agent.scans.formats.splats.spz import spz_scan
from render_agent.scans.formats.textured.gltf.gltf_file import GltfFile, Tree, extension
from render_agent.scans.formats.textured.gltf.scene_graph import FloatArray, Placement
from render_agent.scans.gaussians import CONSTANT_HARMONIC, Gaussians
from render_agent.scans.srgb import to_srgb

SPLAT = "KHR_gaussian_splatting"
SPZ = ("KHR_gaussian_splatting_compression_spz_2", "KHR_gaussian_splatting_compression_spz")

COLOUR_NOTE = "view-dependent colours of splats are not shown"


def is_splat(primitive: Tree) -> bool:
    return SPLAT in (primitive.get("extensions") or {})


def read_splats(
    gltf: GltfFile, splats: Sequence[tuple[Placement, Tree]], declared: Declared
) -> Scan:
    """Join the splats of a file, placed primitives, to one scan."""
    parts = []
    for placement, primitive in splats:
        scan = _splat(gltf, primitive, declared)
        parts += [_place(gltf, scan, matrix) for matrix in placement.matrices(gltf)]
        check_count(gltf.path, sum(len(part.points) for part in parts))
    return parts[0] if len(parts) == 1 else _join(parts)


def _splat(gltf: GltfFile, primitive: Tree, declared: Declared) -> Scan:
    splat = extension(primitive, SPLAT)
    for name in SPZ:
        if packed := extension(splat, name):
            declared.use(SPLAT, name, *primitive.get("attributes") or ())
            return spz_scan(gltf.path, bytes(gltf.view(int(packed["bufferView"]))))
    if splat.get("extensions"):
        reason = f"its splats use {', '.join(splat['extensions'])}, which is not supported"
        raise unreadable(gltf.path, reason, "convert it to PLY or SPZ")
    for key, value in (("kernel", "ellipse"), ("projection", "perspective")):
        if splat.get(key, value) != value:
            declared.add(f"{key} {splat[key]}")
    names = [
        f"{SPLAT}:SH_DEGREE_{degree}_COEF_{index}"
        for degree in range(4)
        for index in range(2 * degree + 1)
    ]
    columns = {
        name: _attribute(gltf, primitive, name)
        for name in ("POSITION", f"{SPLAT}:SCALE", f"{SPLAT}:ROTATION", f"{SPLAT}:OPACITY", *names)
    }
    points, scales, rotations, opacities, constant = list(columns.values())[:5]
    if points is None or scales is None or rotations is None:
        raise unreadable(
            gltf.path, f"its splats do not follow the released {SPLAT}", "export it again"
        )
    if opacities is None or constant is None:
        raise unreadable(gltf.path, "its splats have no opacities or no colours", "export it again")
    declared.use(
        SPLAT, "COLOR_0", *(name for name, values in columns.items() if values is not None)
    )
    present = list(takewhile(lambda values: values is not None, (columns[name] for name in names)))
    count = max(size for size in COEFFICIENTS if size <= len(present))
    harmonics = np.stack([values for values in present[:count] if values is not None], axis=1)
    if splat.get("colorSpace", "").startswith("lin"):
        levels = to_srgb(0.5 + CONSTANT_HARMONIC * harmonics[:, 0]) / np.float64(255)
        harmonics = (levels[:, None] - 0.5) / CONSTANT_HARMONIC
        declared.add("view-dependent colours in linear light")
    return splat_scan(
        gltf.path, points, scales, rotations[:, [3, 0, 1, 2]], opacities[:, 0], harmonics
    )


def _attribute(gltf: GltfFile, primitive: Tree, name: str) -> FloatArray | None:
    values = gltf.attribute(primitive, name)
    return None if values is None else values.astype(np.float64)


def _place(gltf: GltfFile, scan: Scan, matrix: FloatArray) -> Scan:
    """Return a splat transformed by a node's matrix, (4, 4)."""
    scale = float(np.cbrt(abs(np.linalg.det(matrix[:3, :3]))))
    turn = matrix[:3, :3] / scale if scale > 0 else matrix[:3, :3]
    if not np.allclose(turn @ turn.T, np.eye(3), atol=1e-3):
        raise unreadable(
            gltf.path, "a node scales its splats unevenly", "apply the scale, then export it again"
        )
    return transform_scan(scan, turn, scale, matrix[:3, 3])


def _join(parts: Sequence[Scan]) -> Scan:
    """Join splats; those with different axes of their harmonics keep only the constant colour."""
    gaussians = [part.gaussians for part in parts if part.gaussians is not None]
    count = max(each.harmonics.shape[1] for each in gaussians)
    axes = gaussians[0].harmonics_axes
    notes = [note for part in parts for note in part.notes]
    if count > 1 and not all(np.allclose(each.harmonics_axes, axes) for each in gaussians):
        count = 1
        notes.append(COLOUR_NOTE)
    all_gaussians = Gaussians(
        np.concatenate([each.scales for each in gaussians]),
        np.concatenate([each.rotations for each in gaussians]),
        np.concatenate([each.opacities for each in gaussians]),
        np.concatenate([_pad(each.harmonics, count) for each in gaussians]),
        axes,
    )
    return replace(
        parts[0],
        points=np.concatenate([part.points for part in parts]),
        colours=np.concatenate([part.colours for part in parts if part.colours is not None]),
        gaussians=all_gaussians,
        notes=tuple(dict.fromkeys(notes)),
    )


def _pad(harmonics: NDArray[Any], count: int) -> NDArray[Any]:
    return np.pad(harmonics[:, :count], ((0, 0), (0, max(0, count - harmonics.shape[1])), (0, 0)))
