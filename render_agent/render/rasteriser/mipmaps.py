"""Pictures on faces: their mip levels, and the texel that a pixel shows, filtered trilinearly.

A level is half as wide and high as the one before; its texels are means of light, not of a screen's
levels, so that a chequered floor keeps its brightness far away. Filtering between texels and levels is
in a screen's levels, as a graphics card does it. The level follows from how fast the picture's
coordinates change over the pixel, from the plane of the face itself: with s = S·p / D·p, where p =
(u, v, 1) is a pixel and S, D are constant on a face, ds/du = (S_u - s D_u) / D·p (Heckbert 1989).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from render_agent.render.rasteriser.kernels import fetched_soon, inlined_kernel, kernel
from render_agent.scans.srgb import LEVEL_OF_LIGHT, LIGHT_OF_LEVEL, linear, screen
from render_agent.scans.texture import Material, Texture, Wrap

WRAPS: dict[Wrap, int] = {"repeat": 0, "clamp": 1, "mirror": 2}
REPEAT, CLAMP = 0, 1

NO_PICTURE = -1
"""In the place of the mip level of a pixel that shows no picture."""

NO_HOLES = -1.0
"""The cutoff of a material without holes."""

FETCHED_AHEAD = 24
"""Pixels ahead of the one that is shown whose texels are brought near: half of the time goes by waiting for them."""

LANES = np.uint64(0x00FF00FF00FF00FF)
HALVES = np.uint64(0x0080008000800080)


class Texturing(NamedTuple):
    """What the kernels need to lay pictures over the faces of a mesh; k materials, l levels in all.

    uv: (v, 2) float32, tints: (v, 3) uint8 (or none), of the vertices. materials: (m,) int32, that of
    each face, -1 without a picture; empty where no face has one. texels: (t,) uint32, RGBA of all
    levels, red lowest, each with a margin of one texel that goes on as the picture does. starts: (l, 2)
    where each level begins, and how long its rows are. scales: (l, 2) its width and its height, times 256. first: (k + 1,)
    each material's first level. wraps: (k, 2), see WRAPS. cutoffs: (k,) the alpha of 0 to 255 below which a texel is a
    hole. light, levels: see `scene.srgb`.
    """

    uv: NDArray[np.float32]
    tints: NDArray[np.uint8]
    materials: NDArray[np.int32]
    texels: NDArray[np.uint32]
    starts: NDArray[np.uint64]
    scales: NDArray[np.float64]
    first: NDArray[np.int64]
    wraps: NDArray[np.int64]
    cutoffs: NDArray[np.float64]
    light: NDArray[np.float32]
    levels: NDArray[np.uint8]


def texturing(
    texture: Texture | None, sources: NDArray[np.int32], order: NDArray[np.int32]
) -> Texturing:
    """Return the pictures of a scene for the kernels; without any, one that is empty.

    sources: (v,) the scene's index of each vertex. order: (m,) the scene's index of each face.
    """
    listed = () if texture is None else texture.materials
    pictured = [part for part in listed if part.picture is not None]
    chains = [mip_levels(part) for part in pictured]
    flat = [
        _with_margin(level, part)
        for part, chain in zip(pictured, chains, strict=True)
        for level in chain
    ]
    sizes = np.array([level.shape for level in flat], np.int64).reshape(-1, 2)
    starts = np.cumsum([0, *sizes.prod(axis=1)])
    uv, tints = np.zeros((1, 2), np.float32), np.zeros((0, 3), np.uint8)
    materials = np.empty(0, np.int32)
    if texture is not None and pictured:
        uv = np.ascontiguousarray(texture.uv[sources], np.float32)
        if texture.vertex_tints is not None:
            tints = np.ascontiguousarray(texture.vertex_tints[sources])
        numbers = {id(part): number for number, part in enumerate(pictured)}
        renumbered = np.array([numbers.get(id(part), -1) for part in listed], np.int32)
        materials = renumbered[texture.face_materials[order]]
    return Texturing(
        uv,
        tints,
        materials,
        np.concatenate([np.empty(0, np.uint32), *(level.ravel() for level in flat)]),
        np.column_stack([starts[:-1], sizes[:, 1]]).astype(np.uint64),
        (256 * (sizes[:, ::-1] - 2)).astype(np.float64),
        np.cumsum([0, *map(len, chains)]).astype(np.int64),
        np.array([[WRAPS[way] for way in part.wrap] for part in pictured], np.int64).reshape(-1, 2),
        np.array([alpha_cutoff(part) for part in pictured], np.float64),
        LIGHT_OF_LEVEL,
        LEVEL_OF_LIGHT,
    )


def _with_margin(level: NDArray[np.uint8], material: Material) -> NDArray[np.uint32]:
    """Return a mip level, (h, w, 4), as texels, (h + 2, w + 2), the outermost as what lies beyond it."""
    texels = level.view(np.uint32)[..., 0]
    for axis, way in enumerate(material.wrap[::-1]):
        margin = [(int(axis == side),) * 2 for side in (0, 1)]
        texels = np.pad(texels, margin, "wrap" if way == "repeat" else "edge")
    return texels


def alpha_cutoff(material: Material) -> float:
    """Return the alpha, 0 to 255, below which a texel is a hole; NO_HOLES where none is."""
    return NO_HOLES if material.alpha_cutoff is None else 255 * material.alpha_cutoff


def mip_levels(material: Material) -> list[NDArray[np.uint8]]:
    """Return the levels, (h, w, 4) uint8 each, of a material's picture times its tint, largest first."""
    assert material.picture is not None
    picture = np.ascontiguousarray(material.picture)
    if material.tint[:3] != (1.0, 1.0, 1.0):
        shares = linear(np.arange(256, dtype=np.uint8))
        tables = [screen(shares * share) for share in material.tint[:3]]
        picture = np.stack(
            [*(table[picture[..., i]] for i, table in enumerate(tables)), picture[..., 3]], axis=-1
        )
    levels = [np.ascontiguousarray(picture)]
    while max(levels[-1].shape[:2]) > 1:
        height, width = (max(1, side // 2) for side in levels[-1].shape[:2])
        smaller = np.empty((height, width, 4), np.uint8)
        _halve(
            levels[-1], LIGHT_OF_LEVEL, LEVEL_OF_LIGHT, material.alpha_cutoff is not None, smaller
        )
        levels.append(smaller)
    return levels


@kernel
def _halve(picture: Any, light: Any, levels: Any, weighted: Any, smaller: Any) -> None:
    """Write the next level: means of light over the texels, or shares of them, that each covers.

    weighted: texels count by their alpha, so that the colour of holes does not bleed out of them.
    """
    height, width = picture.shape[0], picture.shape[1]
    rows, columns = smaller.shape[0], smaller.shape[1]
    tall, wide = height / rows, width / columns
    sums = np.empty(3, np.float64)
    for row in range(rows):
        top, bottom = row * tall, (row + 1) * tall
        for column in range(columns):
            left, right = column * wide, (column + 1) * wide
            total = alpha = 0.0
            sums[:] = 0.0
            for r in range(int(top), min(int(np.ceil(bottom)), height)):
                upright = min(r + 1.0, bottom) - max(np.float64(r), top)
                for c in range(int(left), min(int(np.ceil(right)), width)):
                    area = upright * (min(c + 1.0, right) - max(np.float64(c), left))
                    alpha += area * picture[r, c, 3]
                    if weighted:
                        area *= picture[r, c, 3] + 0.001
                    total += area
                    for channel in range(3):
                        sums[channel] += area * light[picture[r, c, channel]]
            for channel in range(3):
                step = int(sums[channel] / total * (len(levels) - 1) + 0.5)
                smaller[row, column, channel] = levels[step]
            smaller[row, column, 3] = np.uint8(alpha / (tall * wide) + 0.5)


@inlined_kernel
def picture_plane(normals: Any, faces: Any, face: Any, uv: Any) -> Any:
    """Return S, T and D of a face, (3,) each: a pixel p shows the place (S·p, T·p) / D·p.

    normals: (3,) each, the cross products of the face's homogeneous corners (see zbuffer).
    """
    a, b, c = faces[face, 0], faces[face, 1], faces[face, 2]
    sa, sb, sc = uv[a, 0], uv[b, 0], uv[c, 0]
    ta, tb, tc = uv[a, 1], uv[b, 1], uv[c, 1]
    (a0, a1, a2), (b0, b1, b2), (c0, c1, c2) = normals
    return (
        (a0 * sa + b0 * sb + c0 * sc, a1 * sa + b1 * sb + c1 * sc, a2 * sa + b2 * sb + c2 * sc),
        (a0 * ta + b0 * tb + c0 * tc, a1 * ta + b1 * tb + c1 * tc, a2 * ta + b2 * tb + c2 * tc),
        (a0 + b0 + c0, a1 + b1 + c1, a2 + b2 + c2),
    )


@inlined_kernel
def within(place: Any, wrap: Any) -> Any:
    """Return a place along one side moved into the picture, 0 to 1; of no number and of infinity, 0."""
    if wrap == REPEAT:
        place -= np.floor(place)
    elif wrap == CLAMP:
        place = min(place, 1.0)
    else:
        place -= 2.0 * np.floor(place * 0.5)
        place = min(place, 2.0 - place)
    return max(0.0, place)  # in this order 0 for no number, too


@inlined_kernel
def _lanes(texel: Any) -> Any:
    """Return the four bytes of a texel 16 bits apart: red lowest, then blue, green and alpha."""
    wide = np.uint64(texel)
    return (wide | wide << np.uint64(24)) & LANES


@inlined_kernel
def mix(one: Any, other: Any, part: Any) -> Any:
    """Return the mean of two texels, in lanes, `part` of 256 parts of it the other's, rounded."""
    return ((one * (np.uint64(256) - part) + other * part + HALVES) >> np.uint64(8)) & LANES


@inlined_kernel
def _log2(value: Any) -> Any:
    """Return the logarithm of a positive number, right to 0.01: its exponent, and a parabola between."""
    bits = np.float32(value).view(np.int32)
    share = (bits & 0x7FFFFF) * 1.1920929e-07
    return (bits >> 23) - 127 + share * (1.3465 - 0.3465 * share)


@inlined_kernel
def place_at(plane: Any, u: Any, v: Any) -> Any:
    """Return where in its picture a face shows a pixel (u, v), and 1 / D·p; no numbers where it is edge on."""
    (s0, s1, s2), (t0, t1, t2), (d0, d1, d2) = plane
    # so that what is the same in all of a row is worked out once
    scale = 1.0 / (d0 * u + (d1 * v + d2))
    return (s0 * u + (s1 * v + s2)) * scale, (t0 * u + (t1 * v + t2)) * scale, scale


@inlined_kernel
def detail_at(scales: Any, level: Any, last: Any, plane: Any, s: Any, t: Any, scale: Any) -> Any:
    """Return the mip level of `level` … `last` at a place, and how many of 256 parts the next coarser one has."""
    (s0, s1, _), (t0, t1, _), (d0, d1, _) = plane
    width, height = scales[level, 0] * scale / 256.0, scales[level, 1] * scale / 256.0
    su, tu = (s0 - s * d0) * width, (t0 - t * d0) * height
    sv, tv = (s1 - s * d1) * width, (t1 - t * d1) * height
    steepest = max(su * su + tu * tu, sv * sv + tv * tv)
    share = np.uint64(0)
    if steepest > 1.0:
        detail = min(0.5 * _log2(min(steepest, 1e30)), np.float64(last - level))
        whole = np.int64(detail)
        share = np.uint64(np.int64((detail - whole) * 256.0 + 0.5))
        level += whole
    return level, share


@inlined_kernel
def texel_at(start: Any, row: Any, wide: Any, tall: Any, s: Any, t: Any) -> Any:
    """Return where a mip level is read at a place of 0 to 1 along both sides.

    The index of the upper left of four texels, times 65,536; how many of 256 parts the lower ones have, times
    256; and those of the right ones. start, row, wide, tall: of the level, see Texturing.
    """
    # 1 / 256 of a texel, from the middle of the first one of the margin; half of it rounds
    x = np.int64(s * wide + 128.5)
    y = np.int64(t * tall + 128.5)
    at = start + np.uint64(y >> 8) * row + np.uint64(x >> 8)
    return at << np.uint64(16) | np.uint64((y & 255) << 8 | x & 255)


@inlined_kernel
def bilinear(texels: Any, place: Any, row: Any) -> Any:
    """Return the mean, in lanes (see `_lanes`), of four texels of a level; place: see `texel_at`."""
    across, down = place & np.uint64(255), place >> np.uint64(8) & np.uint64(255)
    at = place >> np.uint64(16)
    both = (across * down + np.uint64(128)) >> np.uint64(8)
    # four shares of 256 in all: no lane grows beyond its 16 bits
    return (
        _lanes(texels[at]) * (np.uint64(256) - across - down + both)
        + _lanes(texels[at + np.uint64(1)]) * (across - both)
        + _lanes(texels[at + row]) * (down - both)
        + _lanes(texels[at + row + np.uint64(1)]) * both
        + HALVES
    ) >> np.uint64(8) & LANES


@kernel
def show_texels(
    texels: Any, starts: Any, places: Any, details: Any,
    tinted: Any, light: Any, levels: Any, colours: Any,
) -> None:  # fmt: skip
    """Write what the pixels of a row, (w, 3) uint8, show of their pictures, those in place multiplied if tinted.

    places: (2, w) uint64, see `texel_at`, in the finer and in the coarser level. details: (w,) int64, the finer
    level times 512, and how many of 256 parts the coarser one has; NO_PICTURE where a pixel stays as it is.
    A loop of its own keeps all that it needs in the processor's registers.
    """
    for column in range(len(colours)):
        ahead = min(column + FETCHED_AHEAD, len(colours) - 1)
        fetched_soon(texels, places[0, ahead] >> np.uint64(16))
        fetched_soon(texels, places[1, ahead] >> np.uint64(16))
        detail = details[column]
        if detail < 0:
            continue
        level, share = np.uint64(detail >> 9), np.uint64(detail & 511)
        texel = bilinear(texels, places[0, column], starts[level, 1])
        if share:
            coarser = bilinear(texels, places[1, column], starts[level + np.uint64(1), 1])
            texel = mix(texel, coarser, share)
        shown = (texel & np.uint64(255), texel >> np.uint64(32), texel >> np.uint64(16))
        for channel in range(3):
            value = shown[channel] & np.uint64(255)
            if tinted:
                product = light[value] * light[colours[column, channel]]
                colours[column, channel] = levels[np.int64(product * (len(levels) - 1) + 0.5)]
            else:
                colours[column, channel] = value


@kernel
def is_hole(pages: Any, material: Any, plane: Any, u: Any, v: Any) -> Any:
    """Return whether a face has a hole at a pixel's (u, v): it shows less alpha than its material's cutoff."""
    s, t, scale = place_at(plane, u, v)
    starts, scales, first = pages.starts, pages.scales, pages.first
    level, share = detail_at(scales, first[material], first[material + 1] - 1, plane, s, t, scale)
    s, t = within(s, pages.wraps[material, 0]), within(t, pages.wraps[material, 1])
    texel = finer = np.uint64(0)
    for one in (level, level + np.int64(share > np.uint64(0))):
        row = starts[one, 1]
        place = texel_at(starts[one, 0], row, scales[one, 0], scales[one, 1], s, t)
        finer, texel = texel, bilinear(pages.texels, place, row)
    return np.float64(mix(finer, texel, share) >> np.uint64(48)) < pages.cutoffs[material]
