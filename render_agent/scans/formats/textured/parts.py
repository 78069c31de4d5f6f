"""Parts of a textured scan, each of one material, joined to one scan with colours at its vertices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.formats.cleaning import Scan
from render_agent.scans.srgb import linear, screen
from render_agent.scans.texture import Material, Texture, bilinear

FloatArray = NDArray[np.float64]

MAX_VERTICES = 20_000_000
"""Vertices of all instances of a scan's meshes together."""

MAX_CORNERS = 120_000_000
"""The same for corners of faces."""

FARTHEST_UV = 1e5
"""A picture is not repeated more often than this; what lies beyond is a fault, as NaN is."""

PLAIN_LIGHT = float(linear(np.array(180 / 255)))
"""The linear light of parts without a colour in a scan with colours."""

PLAIN = Material(None, (PLAIN_LIGHT, PLAIN_LIGHT, PLAIN_LIGHT, 1.0), captured=False)

SCANNED = Material(None)
"""Of vertex colours without a material."""

LOOSE_NOTE = (
    "Parts of it have a picture but no place in it: they are drawn in the picture's mean colour."
)


@dataclass(frozen=True, eq=False)
class Part:
    """Faces of one material, or points.

    points: (n, 3) metres. faces: (m, 3) indices into them, None for a cloud. material: None where the
    file names none. uv: (n, 2) as in a Texture, or None. colours: (n, 3) linear light of the vertices,
    that multiplies the material's, or None.
    """

    points: NDArray[Any]
    faces: NDArray[Any] | None
    material: Material | None = None
    uv: NDArray[Any] | None = None
    colours: NDArray[Any] | None = None


def joined(parts: Sequence[Part], notes: Sequence[str] = ()) -> Scan:
    """Return parts, all meshes or all clouds, as one scan; without any colours where no part has one.

    ValueError where a face uses a vertex that is not there.
    """
    colourless = all(part.material is None and part.colours is None for part in parts)
    numbers: dict[int, int] = {}
    materials: list[Material] = []

    def number(material: Material) -> int:
        if id(material) not in numbers:
            numbers[id(material)] = len(materials)
            materials.append(material)
        return numbers[id(material)]

    points, faces, colours, uvs, tints, chosen, count = [], [], [], [], [], [], 0
    all_notes = list(notes)
    for part in parts:
        size = len(part.points)
        material = part.material or (PLAIN if part.colours is None else SCANNED)
        if part.colours is not None and material.picture is None and not material.captured:
            material = replace(material, captured=True)
        uv = np.zeros((size, 2), np.float32)
        lost = np.full(size, material.picture is not None)
        if part.uv is not None and material.picture is not None:
            with np.errstate(invalid="ignore"):
                lost = ~(np.abs(part.uv) <= FARTHEST_UV).all(axis=1)
            uv = np.where(lost[:, None], 0, part.uv).astype(np.float32)
        if part.faces is not None:
            corners = np.asarray(part.faces).astype(np.int64, copy=False).reshape(-1, 3)
            if len(corners) and not 0 <= corners.min() <= corners.max() < size:
                raise ValueError("a face uses a vertex that is not there")
            named = np.full(len(corners), number(material), np.int32)
            loose = lost[corners].any(axis=1) if lost.any() else np.zeros(len(corners), bool)
            if loose.any():
                named[loose] = number(_without_picture(material))
                all_notes += [LOOSE_NOTE] if LOOSE_NOTE not in all_notes else []
            faces.append((corners + count).astype(np.int32))
            chosen.append(named)
        points.append(part.points)
        if not colourless:
            colours.append(screen(_light(material, uv, lost, part.colours)))
            uvs.append(uv)
            tints.append(
                np.full((size, 3), 255, np.uint8) if part.colours is None else screen(part.colours)
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
    tinted = any(
        part.colours is not None and part.material is not None and part.material.picture is not None
        for part in parts
    )
    texture = Texture(
        np.concatenate(uvs),
        np.concatenate(chosen),
        tuple(materials),
        np.concatenate(tints) if tinted else None,
    )
    return replace(scan, texture=texture)


def _without_picture(material: Material) -> Material:
    return replace(material, picture=None, alpha_cutoff=None)


def _light(
    material: Material,
    uv: NDArray[np.float32],
    lost: NDArray[np.bool_],
    tints: NDArray[Any] | None,
) -> FloatArray:
    """Return the linear light, (n, 3), of vertices: the product of all that colours them."""
    light = np.tile(np.array(material.tint[:3], np.float64), (len(uv), 1))
    if material.picture is not None:
        texels = linear(bilinear(material.picture, uv, material.wrap)[:, :3] / 255)
        mean = linear(material.picture[::7, ::7, :3].reshape(-1, 3).mean(axis=0) / 255)
        light *= np.where(lost[:, None], mean, texels)
    if tints is not None:
        light *= tints
    return light
