"""Projected Gaussians blended from front to back, tile by tile, and the depth at which half of the light is gone.

After B. Kerbl et al., "3D Gaussian Splatting for Real-Time Radiance Field Rendering" (2023), section 6
and its program: alpha is at most 0.99, what covers a pixel less than 1/255 is left out, and a pixel is done
before less than 1/10000 of its light would be left.

A tile keeps for each pixel the light that is left (below zero once the pixel is done), red, green, blue and
which Gaussian of the tile's list took the first half. Eight pixels are done at a time by the same
instructions, so that nothing within the innermost loop branches.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from render_agent.render.rasteriser.kernels import kernel

TILE = 16
"""Pixels that a tile is wide and high."""

LANES = 8

PIXELS = TILE * TILE

MOST_ALPHA = np.float32(0.99)
LEAST_ALPHA = np.float32(1.0 / 255.0)
LEAST_LIGHT = np.float32(1e-4)
HALF = np.float32(0.5)
ONE = np.float32(1.0)

CHECKED_EVERY = 16
"""Gaussians after which it is looked whether all pixels of a tile are done."""

E0, E1, E2, E3, E4 = map(np.float32, (0.99999993, 0.99998978, 0.49976282, 0.16472589, 0.035076))
"""The polynomial that is nearest to e to the power of x from -0.35 to 0; its sixteenth power is off by 1.5e-6."""


@kernel
def lists(bounds: Any, first_row: Any, last_row: Any, tiles_across: Any) -> Any:
    """Return which Gaussians touch each tile of a band: starts (t + 1,) int64 and positions (p,) int32.

    bounds: (n, 4) int32 from front to back; positions are in it. A tile's positions stand from its
    start up to the next one's, from front to back.
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
    state: Any, base: Any, du: Any, iuu: Any, cross: Any, rest: Any, opacity: Any,
    red: Any, green: Any, blue: Any, number: Any,
) -> None:  # fmt: skip
    """Blend one Gaussian over the LANES pixels from `base` on, the first of which is `du` right of its middle.

    iuu, cross, rest: half of its exponent is (iuu * du / 2 + cross) * du + rest.
    """
    # unsigned, as numbers that may be negative would be looked at one by one
    for lane in range(np.uint64(0), np.uint64(LANES)):
        at = base + lane
        d = du + np.float32(np.int32(lane))
        # e to the power of x is (e to the power of x / 16) to the power of 16
        power = ((iuu * d + cross) * d + rest) * np.float32(-1.0 / 16.0)
        power = max(power, np.float32(-0.5))
        e = (((E4 * power + E3) * power + E2) * power + E1) * power + E0
        e = e * e
        e = e * e
        e = e * e
        e = e * e
        alpha = min(opacity * e, MOST_ALPHA)
        light = state[at]
        left = light * (ONE - alpha)
        counts = (alpha >= LEAST_ALPHA) & (light > np.float32(0.0))
        done = left < LEAST_LIGHT
        weight = alpha * light if counts & (not done) else np.float32(0.0)
        state[at] = (-light if done else left) if counts else light
        state[at + np.uint64(PIXELS)] += weight * red
        state[at + np.uint64(2 * PIXELS)] += weight * green
        state[at + np.uint64(3 * PIXELS)] += weight * blue
        halved = counts & (light > HALF) & (left <= HALF)
        before = state[at + np.uint64(4 * PIXELS)]
        state[at + np.uint64(4 * PIXELS)] = number if halved else before


@kernel
def blend_tile(records: Any, slots: Any, positions: Any, left: Any, top: Any, state: Any) -> None:
    """Blend a tile, whose first pixel is (left, top), with the Gaussians at `positions`, from front to back.

    records: see `ewa.project`. slots: (n,) int64, the record of each position. state: (5 * PIXELS,) float32.
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
            rest = HALF * ivv * dv * dv
            # where on this row the exponent reaches its end
            inside = cross * cross - np.float32(2.0) * iuu * (rest - end)
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
                    state, np.uint64(row * TILE + start), np.float32(start) + HALF - u, HALF * iuu, cross, rest,
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
    """Draw the rows first_row … last_row-1.

    slots, bounds: of the Gaussians in the picture from front to back. sources: (n,) int32, the scene's
    index of each. near, perspective: see Projection. depths (H, W) float32, primitives (H, W) int32 and colours (H, W, 3) uint8 are written.
    """
    width = colours.shape[1]
    across = (width + TILE - 1) // TILE
    starts, positions = lists(bounds, first_row, last_row, across)
    state = np.empty(5 * PIXELS, np.float32)
    for tile in range(len(starts) - 1):
        top, left = first_row + tile // across * TILE, tile % across * TILE
        own = positions[starts[tile] : starts[tile + 1]]
        blend_tile(records, slots, own, left, top, state)
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
                position = own[min(number, len(own) - 1)]
                record = records[slots[position]]
                du, dv = column + 0.5 - record[0], row + 0.5 - record[1]
                aside = du * record[11] + dv * record[12]
                if (
                    perspective
                ):  # the inverse of a plane's depth is what changes evenly over the picture
                    aside /= max(1.0 - aside / record[10], 0.1)
                aside = min(max(aside, -record[13]), record[13])
                depths[row, column] = max(record[10] + aside, near)
                primitives[row, column] = sources[position]
