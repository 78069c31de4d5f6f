"""Blends projected Gaussians from front to back, tile by tile, and finds the depth at which half of the light is
absorbed.

Follows B. Kerbl et al., "3D Gaussian Splatting for Real-Time Radiance Field Rendering" (2023), section 6, and their
program: alpha is limited to 0.99, contributions below 1/255 are skipped, and a pixel is finished before less than
1/10000 of its light would remain.

The state of a tile contains, for each pixel, the remaining light (negative once the pixel is finished), red, green,
blue, and the Gaussian of the tile's list that absorbed the first half. Eight pixels are processed with SIMD
instructions, so the innermost loop has no branches.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from render_agent.render.rasteriser.kernels import kernel

TILE = 16  # width and height of a tile in pixels
LANES = 8  # pixels processed together
PIXELS = TILE * TILE

MOST_ALPHA = np.float32(0.99)
LEAST_ALPHA = np.float32(1.0 / 255.0)
MIN_LIGHT = np.float32(1e-4)
HALF = np.float32(0.5)
ONE = np.float32(1.0)

CHECKED_EVERY = 16  # number of Gaussians between checks for whether a tile is finished

# Polynomial approximation of exp(x) on [-0.35, 0]; its 16th power has an error of 1.5e-6.
E0, E1, E2, E3, E4 = map(np.float32, (0.99999993, 0.99998978, 0.49976282, 0.16472589, 0.035076))


@kernel
def lists(bounds: Any, first_row: Any, last_row: Any, tiles_across: Any) -> Any:
    """Return the Gaussians that touch each tile of a band, as starts (t + 1,) int64 and positions (p,) int32.

    Positions are indices into `bounds`, (n, 4) int32, which is sorted front to back. A tile's positions are between its
    start and the next tile's, in the same order.
    """
    down = (last_row - first_row + TILE - 1) // TILE
    starts = np.zeros(down * tiles_across + 1, np.int64)
    for position in range(len(bounds)):
        top, bottom = max(bounds[position, 0], first_row), min(bounds[position, 1], last_row)
        if top >= bottom:
            continue
        for row in range((top - first_row) // TILE, (bottom - 1 - first_row) // TILE + 1):
            for column in range(bounds[position, 2] // TILE, (bounds[position, 3] - 1) // TILE + 1):
                starts[row * tiles_across + column + 1] += 1
    for tile in range(len(starts) - 1):
        starts[tile + 1] += starts[tile]
    positions = np.empty(starts[-1], np.int32)
    free = starts[:-1].copy()
    for position in range(len(bounds)):
        top, bottom = max(bounds[position, 0], first_row), min(bounds[position, 1], last_row)
        if top >= bottom:
            continue
        for row in range((top - first_row) // TILE, (bottom - 1 - first_row) // TILE + 1):
            for column in range(bounds[position, 2] // TILE, (bounds[position, 3] - 1) // TILE + 1):
                tile = row * tiles_across + column
                positions[free[tile]] = position
                free[tile] += 1
    return starts, positions


@kernel
def _blend_lanes(
    state: Any, base: Any, du: Any, iuu: Any, cross: Any, remainder: Any, opacity: Any,
    red: Any, green: Any, blue: Any, number: Any,
) -> None:  # fmt: skip
    """Blend one Gaussian over LANES pixels starting at `base`, the first of which is `du` right of its centre.

    Its exponent there is -((iuu * du + cross) * du + remainder).
    """
    # Unsigned, because the loop is not vectorised if indices can be negative.
    for lane in range(np.uint64(0), np.uint64(LANES)):
        at = base + lane
        d = du + np.float32(np.int32(lane))
        # exp(x) = exp(x / 16) ** 16
        power = ((iuu * d + cross) * d + remainder) * np.float32(-1.0 / 16.0)
        power = max(power, np.float32(-0.5))
        e = (((E4 * power + E3) * power + E2) * power + E1) * power + E0
        e = e * e
        e = e * e
        e = e * e
        e = e * e
        alpha = min(opacity * e, MOST_ALPHA)
        light = state[at]
        new_light = light * (ONE - alpha)
        counts = (alpha >= LEAST_ALPHA) & (light > np.float32(0.0))
        is_finished = new_light < MIN_LIGHT
        weight = alpha * light if counts & (not is_finished) else np.float32(0.0)
        state[at] = (-light if is_finished else new_light) if counts else light
        state[at + np.uint64(PIXELS)] += weight * red
        state[at + np.uint64(2 * PIXELS)] += weight * green
        state[at + np.uint64(3 * PIXELS)] += weight * blue
        is_median = counts & (light > HALF) & (new_light <= HALF)
        before = state[at + np.uint64(4 * PIXELS)]
        state[at + np.uint64(4 * PIXELS)] = number if is_median else before


@kernel
def blend_tile(records: Any, slots: Any, positions: Any, left: Any, top: Any, state: Any) -> None:
    """Blend the Gaussians at `positions`, front to back, over a tile with first pixel (left, top).

    For `records` see `ewa.project`. `slots`, (n,) int64, has the record of each position. `state` is (5 * PIXELS,)
    float32 and is overwritten.
    """
    state[:PIXELS] = ONE
    state[PIXELS : 4 * PIXELS] = np.float32(0.0)
    state[4 * PIXELS :] = np.float32(-1.0)
    since = 0
    for number in range(len(positions)):
        record = records[slots[positions[number]]]
        u, v = record[0] - np.float32(left), record[1] - np.float32(top)
        iuu, iuv, ivv = record[2], record[3], record[4]
        end = record[5]
        reach = np.sqrt(np.float32(2.0) * end * iuu / (iuu * ivv - iuv * iuv))
        first_row = np.int64(min(max(np.ceil(v - reach - HALF), np.float32(0.0)), np.float32(TILE)))
        last_row = np.int64(min(max(np.floor(v + reach + HALF), np.float32(0.0)), np.float32(TILE)))
        over = ONE / iuu
        for row in range(first_row, last_row):
            dv = np.float32(row) + HALF - v
            cross = iuv * dv
            remainder = HALF * ivv * dv * dv
            # Interval of the row where the exponent stays below its end.
            inside = cross * cross - np.float32(2.0) * iuu * (remainder - end)
            if inside <= np.float32(0.0):
                continue
            half = np.sqrt(inside) * over
            middle = u - cross * over - HALF
            first = np.int64(min(max(np.ceil(middle - half), np.float32(0.0)), np.float32(TILE)))
            last = np.int64(
                min(max(np.floor(middle + half) + ONE, np.float32(0.0)), np.float32(TILE))
            )
            for group in range(first // LANES, (last + LANES - 1) // LANES):
                start = group * LANES
                _blend_lanes(
                    state, np.uint64(row * TILE + start), np.float32(start) + HALF - u, HALF * iuu, cross, remainder,
                    record[6], record[7], record[8], record[9], np.float32(number),
                )  # fmt: skip
        since += 1
        if since == CHECKED_EVERY:
            since = 0
            brightest = np.float32(-1.0)
            for pixel in range(PIXELS):
                brightest = max(brightest, state[pixel])
            if brightest < np.float32(0.0):
                return


@kernel
def draw_band(
    records: Any, slots: Any, bounds: Any, sources: Any, near: Any, perspective: Any,
    background: Any,
    first_row: Any, last_row: Any, depths: Any, primitives: Any, colours: Any,
) -> None:  # fmt: skip
    width = colours.shape[1]
    across = (width + TILE - 1) // TILE
    starts, positions = lists(bounds, first_row, last_row, across)
    state = np.empty(5 * PIXELS, np.float32)
    for tile in range(len(starts) - 1):
        top, left = first_row + tile // across * TILE, tile % across * TILE
        tile_positions = positions[starts[tile] : starts[tile + 1]]
        blend_tile(records, slots, tile_positions, left, top, state)
        for row in range(top, min(top + TILE, last_row)):
            for column in range(left, min(left + TILE, width)):
                at = (row - top) * TILE + column - left
                light = abs(state[at])
                for channel in range(3):
                    value = state[at + (1 + channel) * PIXELS] + light * background[channel]
                    colours[row, column, channel] = np.uint8(
                        min(value, ONE) * np.float32(255.0) + HALF
                    )
                number = np.int64(state[at + 4 * PIXELS])
                if number < 0:
                    depths[row, column] = np.inf
                    primitives[row, column] = -1
                    continue
                position = tile_positions[min(number, len(tile_positions) - 1)]
                record = records[slots[position]]
                du, dv = column + 0.5 - record[0], row + 0.5 - record[1]
                aside = du * record[11] + dv * record[12]
                if perspective:  # the inverse depth of a plane is linear in the image
                    aside /= max(1.0 - aside / record[10], 0.1)
                aside = min(max(aside, -record[13]), record[13])
                depths[row, column] = max(record[10] + aside, near)
                primitives[row, column] = sources[position]
