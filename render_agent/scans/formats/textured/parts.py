"""Join the parts of a textured scan, each with one material, into one scan with vertex colours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.formats.cleaning import Scan
from render_agent.scans.srgb import to_linear, to_srgb
from render_agent.scans.texture import Material, Texture, sample_bilinear

FloatArray = NDArray[np.float64]

MAX_VERTICES = 20_000_000  # vertices of all mesh instances together
MAX_CORNERS = 120_000_000  # face corners of all mesh instances together
MAX_UV = 1e5  # texture coordinates beyond this are faulty, like NaN
# Linear light of uncoloured parts in a coloured scan.
PLAIN_LIGHT = float(to_linear(np.array(180 / 255)))
PLAIN = Material(None, (PLAIN_LIGHT, PLAIN_LIGHT, PLAIN_LIGHT, 1.0), captured=False)
BLACK_LEVEL = 12  # sRGB; materials without a brighter colour are black
SCANNED = Material(None)  # for vertex colours without a material

LOOSE_NOTE = "some faces have no valid texture coordinates and are shown in the image's mean colour"


@dataclass(frozen=True, eq=False)
class Part:
    """Faces with one material, or points."""

    points: NDArray[Any]  # (n, 3) metres
    faces: NDArray[Any] | None  # (m, 3) indices into `points`; None for a cloud
    material: Material | None = None  # None if the file specifies none
    uv: NDArray[Any] | None = None  # texture coordinates as in `Texture`, (n, 2), or None
    colours: NDArray[Any] | None = None
    """Vertex colours in linear light, (n, 3), multiplied with the material's; or None."""


def join_parts(parts: Sequence[Part], notes: Sequence[str] = ()) -> Scan:
    """Join parts, all meshes or all clouds, into one scan. It has no colours if no part has. Raises ValueError."""
    colourless = all(part.material is None and part.colours is None for part in parts)
    numbers: dict[int, int] = {}
    materials: list[Material] = []

    def number(material: Material) -> int:
        if id(material) not in numbers:
            numbers[id(material)] = len(materials)
            materials.append(material)
        return numbers[id(material)]

    points, faces, colours, uvs, tints, face_materials, count = [], [], [], [], [], [], 0
    all_notes = list(notes)
    for part in parts:
        size = len(part.points)
        material = part.material or (PLAIN if part.colours is None else SCANNED)
        if part.colours is not None and material.image is None and not material.captured:
            material = replace(material, captured=True)
        uv = np.zeros((size, 2), np.float32)
        has_no_uv = np.full(size, material.image is not None)
        if part.uv is not None and material.image is not None:
            with np.errstate(invalid="ignore"):
                has_no_uv = ~(np.abs(part.uv) <= MAX_UV).all(axis=1)
            uv = np.where(has_no_uv[:, None], 0, part.uv).astype(np.float32)
        if part.faces is not None:
            corners = np.asarray(part.faces).astype(np.int64, copy=False).reshape(-1, 3)
            if len(corners) and not 0 <= corners.min() <= corners.max() < size:
                raise ValueError("a face refers to a vertex that does not exist")
            materials_of_part = np.full(len(corners), number(material), np.int32)
            if has_no_uv.any() and (loose := has_no_uv[corners].any(axis=1)).any():
                materials_of_part[loose] = number(replace(material, image=None, alpha_cutoff=None))
                all_notes += [LOOSE_NOTE] if LOOSE_NOTE not in all_notes else []
            faces.append((corners + count).astype(np.int32))
            face_materials.append(materials_of_part)
        points.append(part.points)
        if not colourless:
            colours.append(to_srgb(_light(material, uv, has_no_uv, part.colours)))
            uvs.append(uv)
            tints.append(
                np.full((size, 3), 255, np.uint8) if part.colours is None else to_srgb(part.colours)
            )
        count += size
    scan = Scan(
        np.concatenate(points),
        None if colourless else np.concatenate(colours),
        np.concatenate(faces) if faces else None,
        notes=tuple(all_notes),
    )
    if colourless or not faces:
        return scan
    has_tints = any(
        part.colours is not None and part.material is not None and part.material.image is not None
        for part in parts
    )
    texture = Texture(
        np.concatenate(uvs),
        np.concatenate(face_materials),
        tuple(materials),
        np.concatenate(tints) if has_tints else None,
    )
    return replace(scan, texture=texture)


def place_copies(
    points: NDArray[Any], faces: NDArray[Any] | None, matrices: Sequence[FloatArray]
) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Return the points, (n, 3), and faces of copies with (4, 4) matrices; faces of mirrored ones are turned over."""
    placed = [points @ matrix[:3, :3].T + matrix[:3, 3] for matrix in matrices]
    if faces is None:
        return _concatenate(placed), None
    are_mirrored = [np.linalg.det(matrix[:3, :3]) < 0 for matrix in matrices]
    turned = [faces[:, [0, 2, 1]] if mirrored else faces for mirrored in are_mirrored]
    size = len(points)
    return _concatenate(placed), _concatenate(
        [part + size * at if at else part for at, part in enumerate(turned)]
    )


def _concatenate(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """Concatenate arrays; a single one is not copied."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def is_black(material: Material | None) -> bool:
    """Return True if a material's colour is black, so that its emission is what is seen."""
    if material is None:
        return False
    brightest = float(to_srgb(np.array(max(material.tint[:3]))))
    if material.image is not None:
        brightest *= float(material.image[..., :3].max()) / 255
    return brightest <= BLACK_LEVEL


def _light(
    material: Material,
    uv: NDArray[np.float32],
    has_no_uv: NDArray[np.bool_],
    tints: NDArray[Any] | None,
) -> FloatArray:
    """Return the linear light of the vertices, (n, 3): the product of tint, image and vertex colours."""
    light = np.tile(np.array(material.tint[:3], np.float64), (len(uv), 1))
    if material.image is not None:
        texels = to_linear(sample_bilinear(material.image, uv, material.wrap)[:, :3] / 255)
        mean = to_linear(material.image[::7, ::7, :3].reshape(-1, 3).mean(axis=0) / 255)
        light *= np.where(has_no_uv[:, None], mean, texels)
    if tints is not None:
        light *= tints
    return light
