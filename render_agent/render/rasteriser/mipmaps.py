"""Textures: mip levels, and trilinear filtering of the texel shown by a pixel.

Each level has half the width and height of the previous one. Its texels are averages in linear light rather than of
sRGB levels, so that a chequered floor keeps its brightness in the distance. Filtering between texels and levels uses
sRGB levels, as GPUs do. The mip level follows from the derivatives of the texture coordinates on the plane of the face:
with s = S·p / D·p, where p = (u, v, 1) is a pixel and S, D are constant on a face, ds/du = (S_u - s D_u) / D·p
(Heckbert 1989).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from render_agent.render.rasteriser.kernels import inlined_kernel, kernel, prefetch
from render_agent.scans.srgb import LEVEL_OF_LIGHT, LIGHT_OF_LEVEL, to_linear, to_srgb
from render_agent.scans.texture import Material, Texture, Wrap

WRAPS: dict[Wrap, int] = {"repeat": 0, "clamp": 1, "mirror": 2}
REPEAT, CLAMP = 0, 1

NO_IMAGE = -1  # instead of a mip level, for pixels without a texture
NO_HOLES = -1.0  # alpha cutoff of a material without holes
# Pixels ahead whose texels are prefetched; without this, memory latency takes half of the time.
PREFETCH_PIXELS = 24
LANES = np.uint64(0x00FF00FF00FF00FF)
HALVES = np.uint64(0x0080008000800080)


class Texturing(NamedTuple):
    """Textures in the form used by the kernels, for k materials with l levels in total."""

    uv: NDArray[np.float32]  # (v, 2) float32 texture coordinates of the vertices
    tints: NDArray[np.uint8]  # (v, 3) uint8 colours of the vertices, or empty
    materials: NDArray[np.int32]
    """(m,) int32, material of each face, -1 without a texture; empty if no face has one."""
    texels: NDArray[np.uint32]
    """(t,) uint32, RGBA of all levels with red in the lowest byte; each level has a one-texel margin that
    continues it according to its wrap mode.
    """
    starts: NDArray[np.uint64]
    """(l, 2), start of each level in `texels`, and the length of its rows."""
    scales: NDArray[np.float64]  # (l, 2), width and height of each level, times 256
    first: NDArray[np.int64]  # (k + 1,), first level of each material
    wraps: NDArray[np.int64]  # (k, 2), see WRAPS
    cutoffs: NDArray[np.float64]  # (k,), alpha from 0 to 255 below which a texel is a hole
    light: NDArray[np.float32]
    levels: NDArray[np.uint8]


def texturing(
    texture: Texture | None,  # texture of the scene, or None
    sources: NDArray[np.int32],  # the scene's index of each vertex, (v,)
    order: NDArray[np.int32],  # the scene's index of each face, (m,)
) -> Texturing:
    """Return the textures of a scene for the kernels; empty if it has none."""
    all_materials = () if texture is None else texture.materials
    textured_materials = [part for part in all_materials if part.image is not None]
    chains = [mip_levels(part) for part in textured_materials]
    flat = [
        _with_margin(level, part)
        for part, chain in zip(textured_materials, chains, strict=True)
        for level in chain
    ]
    sizes = np.array([level.shape for level in flat], np.int64).reshape(-1, 2)
    starts = np.cumsum([0, *sizes.prod(axis=1)])
    uv, tints = np.zeros((1, 2), np.float32), np.zeros((0, 3), np.uint8)
    materials = np.empty(0, np.int32)
    if texture is not None and textured_materials:
        uv = np.ascontiguousarray(texture.uv[sources], np.float32)
        if texture.vertex_tints is not None:
            tints = np.ascontiguousarray(texture.vertex_tints[sources])
        numbers = {id(part): number for number, part in enumerate(textured_materials)}
        material_numbers = np.array([numbers.get(id(part), -1) for part in all_materials], np.int32)
        materials = material_numbers[texture.face_materials[order]]
    return Texturing(
        uv,
        tints,
        materials,
        np.concatenate([np.empty(0, np.uint32), *(level.ravel() for level in flat)]),
        np.column_stack([starts[:-1], sizes[:, 1]]).astype(np.uint64),
        (256 * (sizes[:, ::-1] - 2)).astype(np.float64),
        np.cumsum([0, *map(len, chains)]).astype(np.int64),
        np.array(
            [[WRAPS[way] for way in part.wrap] for part in textured_materials], np.int64
        ).reshape(-1, 2),
        np.array(
            [
                NO_HOLES if part.alpha_cutoff is None else 255 * part.alpha_cutoff
                for part in textured_materials
            ],
            np.float64,
        ),
        LIGHT_OF_LEVEL,
        LEVEL_OF_LIGHT,
    )


def _with_margin(level: NDArray[np.uint8], material: Material) -> NDArray[np.uint32]:
    """Return a mip level, (h, w, 4), as texels, (h + 2, w + 2), with a margin according to the wrap modes."""
    texels = level.view(np.uint32)[..., 0]
    for axis, way in enumerate(material.wrap[::-1]):
        margin = [(int(axis == side),) * 2 for side in (0, 1)]
        texels = np.pad(texels, margin, "wrap" if way == "repeat" else "edge")
    return texels


def mip_levels(material: Material) -> list[NDArray[np.uint8]]:
    """Return the mip levels, (h, w, 4) uint8 each, of a material's image multiplied by its tint, largest first."""
    assert material.image is not None
    image = np.ascontiguousarray(material.image)
    if material.tint[:3] != (1.0, 1.0, 1.0):
        shares = to_linear(np.arange(256, dtype=np.uint8))
        tables = [to_srgb(shares * share) for share in material.tint[:3]]
        image = np.stack(
            [*(table[image[..., i]] for i, table in enumerate(tables)), image[..., 3]], axis=-1
        )
    levels = [np.ascontiguousarray(image)]
    while max(levels[-1].shape[:2]) > 1:
        height, width = (max(1, side // 2) for side in levels[-1].shape[:2])
        smaller = np.empty((height, width, 4), np.uint8)
        _halve(
            levels[-1], LIGHT_OF_LEVEL, LEVEL_OF_LIGHT, material.alpha_cutoff is not None, smaller
        )
        levels.append(smaller)
    return levels


@kernel
def _halve(image: Any, light: Any, levels: Any, by_alpha: Any, smaller: Any) -> None:
    """Write the next mip level: area-weighted averages in linear light.

    With `by_alpha`, texels are also weighted by their alpha, so that the colour of holes does not bleed.
    """
    height, width = image.shape[0], image.shape[1]
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
                    alpha += area * image[r, c, 3]
                    if by_alpha:
                        area *= image[r, c, 3] + 0.001
                    total += area
                    for channel in range(3):
                        sums[channel] += area * light[image[r, c, channel]]
            for channel in range(3):
                step = int(sums[channel] / total * (len(levels) - 1) + 0.5)
                smaller[row, column, channel] = levels[step]
            smaller[row, column, 3] = np.uint8(alpha / (tall * wide) + 0.5)


@inlined_kernel
def texture_plane(normals: Any, faces: Any, face: Any, uv: Any) -> Any:
    """Return S, T and D of a face, (3,) each: the pixel p has texture coordinates (S·p, T·p) / D·p.

    `normals` are the cross products of the face's homogeneous corners, (3,) each (see zbuffer).
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
def wrap_coordinate(place: Any, wrap: Any) -> Any:
    """Return a texture coordinate wrapped to 0 to 1; NaN and infinity give 0."""
    if wrap == REPEAT:
        place -= np.floor(place)
    elif wrap == CLAMP:
        place = min(place, 1.0)
    else:
        place -= 2.0 * np.floor(place * 0.5)
        place = min(place, 2.0 - place)
    return max(0.0, place)  # this argument order also maps NaN to 0


@inlined_kernel
def _lanes(texel: Any) -> Any:
    """Return the four bytes of a texel 16 bits apart: red lowest, then blue, green and alpha."""
    wide = np.uint64(texel)
    return (wide | wide << np.uint64(24)) & LANES


@inlined_kernel
def mix(texel: Any, other_texel: Any, part: Any) -> Any:
    """Blend two texels in lanes; `part` is the weight of `other_texel`, from 0 to 256."""
    return ((texel * (np.uint64(256) - part) + other_texel * part + HALVES) >> np.uint64(8)) & LANES


@inlined_kernel
def _log2(value: Any) -> Any:
    """Return log2 of a positive number, accurate to 0.01, from its exponent and a parabola."""
    bits = np.float32(value).view(np.int32)
    share = (bits & 0x7FFFFF) * 1.1920929e-07
    return (bits >> 23) - 127 + share * (1.3465 - 0.3465 * share)


@inlined_kernel
def place_at(plane: Any, u: Any, v: Any) -> Any:
    """Return the texture coordinates of a face at a pixel (u, v), and 1 / D·p; NaN or inf if the face is edge-on."""
    (s0, s1, s2), (t0, t1, t2), (d0, d1, d2) = plane
    # Parenthesised so that terms that are constant within a row are computed once.
    scale = 1.0 / (d0 * u + (d1 * v + d2))
    return (s0 * u + (s1 * v + s2)) * scale, (t0 * u + (t1 * v + t2)) * scale, scale


@inlined_kernel
def detail_at(scales: Any, level: Any, last: Any, plane: Any, s: Any, t: Any, scale: Any) -> Any:
    """Return the mip level, from `level` to `last`, and the weight of the next coarser one, from 0 to 256."""
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
    """Return the position of texture coordinates from 0 to 1 in a mip level, packed into an integer.

    It is the index of the upper left of four texels times 65,536, plus the weight (0 to 255) of the lower texels times
    256, plus that of the right ones. For start, row, wide and tall see Texturing.
    """
    # In units of 1/256 texel, relative to the centre of the margin's first texel, rounded.
    x = np.int64(s * wide + 128.5)
    y = np.int64(t * tall + 128.5)
    at = start + np.uint64(y >> 8) * row + np.uint64(x >> 8)
    return at << np.uint64(16) | np.uint64((y & 255) << 8 | x & 255)


@inlined_kernel
def bilinear(texels: Any, place: Any, row: Any) -> Any:
    """Return the bilinear blend, in lanes (see `_lanes`), of four texels; for `place` see `texel_at`."""
    across, down = place & np.uint64(255), place >> np.uint64(8) & np.uint64(255)
    at = place >> np.uint64(16)
    blend = (across * down + np.uint64(128)) >> np.uint64(8)
    # The four weights add up to 256, so no lane overflows its 16 bits.
    return (
        _lanes(texels[at]) * (np.uint64(256) - across - down + blend)
        + _lanes(texels[at + np.uint64(1)]) * (across - blend)
        + _lanes(texels[at + row]) * (down - blend)
        + _lanes(texels[at + row + np.uint64(1)]) * blend
        + HALVES
    ) >> np.uint64(8) & LANES


@kernel
def show_texels(
    texels: Any, starts: Any, places: Any, details: Any,
    is_tinted: Any, light: Any, levels: Any, colours: Any,
) -> None:  # fmt: skip
    """Write the texture colours of a row of pixels, (w, 3) uint8; if `is_tinted`, multiply the existing colours by
    them.

    `places`, (2, w) uint64, are positions in the finer and the coarser level (see `texel_at`); `details`, (w,) int64, the
    finer level times 512 plus the weight of the coarser one (0 to 256), or NO_PICTURE for pixels that stay as they are.

    This is a separate loop, so that all its values stay in CPU registers.
    """
    for column in range(len(colours)):
        next_column = min(column + PREFETCH_PIXELS, len(colours) - 1)
        prefetch(texels, places[0, next_column] >> np.uint64(16))
        prefetch(texels, places[1, next_column] >> np.uint64(16))
        detail = details[column]
        if detail < 0:
            continue
        level, share = np.uint64(detail >> 9), np.uint64(detail & 511)
        texel = bilinear(texels, places[0, column], starts[level, 1])
        if share:
            coarser = bilinear(texels, places[1, column], starts[level + np.uint64(1), 1])
            texel = mix(texel, coarser, share)
        channels = (texel & np.uint64(255), texel >> np.uint64(32), texel >> np.uint64(16))
        for channel in range(3):
            value = channels[channel] & np.uint64(255)
            if is_tinted:
                product = light[value] * light[colours[column, channel]]
                colours[column, channel] = levels[np.int64(product * (len(levels) - 1) + 0.5)]
            else:
                colours[column, channel] = value


@kernel
def is_hole(pages: Any, material: Any, plane: Any, u: Any, v: Any) -> Any:
    """Return True if a face has a hole at a pixel (u, v): its alpha is below the material's cutoff."""
    s, t, scale = place_at(plane, u, v)
    starts, scales, first = pages.starts, pages.scales, pages.first
    level, share = detail_at(scales, first[material], first[material + 1] - 1, plane, s, t, scale)
    s, t = (
        wrap_coordinate(s, pages.wraps[material, 0]),
        wrap_coordinate(t, pages.wraps[material, 1]),
    )
    texel = finer = np.uint64(0)
    for mip_level in (level, level + np.int64(share > np.uint64(0))):
        row = starts[mip_level, 1]
        place = texel_at(
            starts[mip_level, 0], row, scales[mip_level, 0], scales[mip_level, 1], s, t
        )
        finer, texel = texel, bilinear(pages.texels, place, row)
    return np.float64(mix(finer, texel, share) >> np.uint64(48)) < pages.cutoffs[material]
