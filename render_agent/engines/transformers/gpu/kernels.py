"""Triton kernels: paged attention of one token per row, and the elementwise steps around a layer's matrix products.

The elementwise steps round in the same places as the library's code, so that results are bit-identical if sums are
computed in the same order.
"""

# Triton is installed only on machines with a GPU, and its kernels are not typed Python.
# mypy: disable-error-code="import-not-found,untyped-decorator,no-untyped-def"

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

BLOCK_TOKENS = 64  # tokens per iteration of the attention kernel; the page size is a multiple


@triton.jit
def _attend_part(
    query, keys, values, out, parts, weights, tables, lengths, scale, table_width,
    HEADS: tl.constexpr, SHARED: tl.constexpr, WIDTH: tl.constexpr, GROUP: tl.constexpr,
    ROWS: tl.constexpr, PAGE: tl.constexpr, PARTS: tl.constexpr, BLOCK: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Compute one part of a row's tokens, for the query heads that share one key head."""
    shared, part, row = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    count = tl.load(lengths + row)
    blocks = tl.cdiv(tl.cdiv(count, BLOCK), PARTS)
    first = part * blocks * BLOCK
    last = tl.minimum(first + blocks * BLOCK, count)
    group = tl.arange(0, ROWS)
    column = tl.arange(0, WIDTH)
    heads = shared * GROUP + group
    inside = (group < GROUP)[:, None]
    at = (row * HEADS + heads)[:, None] * WIDTH + column[None, :]
    asked = tl.load(query + at, mask=inside, other=0.0)
    highest = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    mixed = tl.zeros([ROWS, WIDTH], tl.float32)
    within = tl.arange(0, BLOCK)
    for start in range(first, last, BLOCK):
        page = tl.load(tables + row * table_width + start // PAGE).to(tl.int64)
        there = start + within < last
        slot = (page * PAGE + start % PAGE + within) * (SHARED * WIDTH) + shared * WIDTH
        key = tl.load(keys + slot[None, :] + column[:, None], mask=there[None, :], other=0.0)
        score = tl.dot(asked, key, input_precision=PRECISION) * scale
        score = tl.where(there[None, :], score, float("-inf"))
        higher = tl.maximum(highest, tl.max(score, 1))
        faded = tl.exp(highest - higher)
        weight = tl.exp(score - higher[:, None])
        value = tl.load(values + slot[:, None] + column[None, :], mask=there[:, None], other=0.0)
        mixed = mixed * faded[:, None]
        mixed += tl.dot(weight.to(value.dtype), value, input_precision=PRECISION)
        total = total * faded + tl.sum(weight, 1)
        highest = higher
    if PARTS == 1:
        tl.store(out + at, (mixed / total[:, None]).to(out.dtype.element_ty), mask=inside)
    else:
        place = (row * PARTS + part) * HEADS + heads
        # A part without tokens has zero weight.
        total = tl.where(first < last, total, 1.0)
        share = mixed / total[:, None]
        tl.store(parts + place[:, None] * WIDTH + column[None, :], share, mask=inside)
        tl.store(weights + place, highest + tl.log(total), mask=group < GROUP)


@triton.jit
def _join_parts(out, parts, weights, HEADS: tl.constexpr, WIDTH: tl.constexpr, PARTS: tl.constexpr):
    """Combine the parts of one row and head with their weights."""
    head, row = tl.program_id(0), tl.program_id(1)
    part = tl.arange(0, PARTS)
    column = tl.arange(0, WIDTH)
    place = (row * PARTS + part) * HEADS + head
    logs = tl.load(weights + place)
    weight = tl.exp(logs - tl.max(logs, 0))
    weight = weight / tl.sum(weight, 0)
    share = tl.load(parts + place[:, None] * WIDTH + column[None, :])
    mixed = tl.sum(share * weight[:, None], 0)
    tl.store(out + (row * HEADS + head) * WIDTH + column, mixed.to(out.dtype.element_ty))


def paged_decode(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    tables: torch.Tensor,
    lengths: torch.Tensor,
    scale: float,
) -> torch.Tensor:
    """Return the attention output of one query per row over the row's pages, (rows, heads, width).

    If there are few rows, each is split into parts to occupy the whole GPU. `keys` and `values` are (pages, tokens per
    page, shared heads, width), `tables` the pages of every row, (rows, pages) int32, and `lengths` the number of tokens
    of every row, at least 1, (rows,) int32.
    """
    rows, heads, width = query.shape
    _, page, shared, _ = keys.shape
    query = query.contiguous()
    out = torch.empty_like(query)
    count = 1
    while count < 32 and rows * shared * count < 2048:
        count *= 2
    parts = weights = out
    if count > 1:
        parts = torch.empty(rows, count, heads, width, dtype=torch.float32, device=query.device)
        weights = torch.empty(rows, count, heads, dtype=torch.float32, device=query.device)
    group = heads // shared
    _attend_part[shared, count, rows](
        query, keys, values, out, parts, weights, tables, lengths, scale, tables.stride(0),
        HEADS=heads, SHARED=shared, WIDTH=width, GROUP=group,
        ROWS=max(16, triton.next_power_of_2(group)), PAGE=page, PARTS=count, BLOCK=BLOCK_TOKENS,
        PRECISION="ieee" if query.dtype == torch.float32 else "tf32",
        num_warps=4, num_stages=3,
    )  # fmt: skip
    if count > 1:
        _join_parts[heads, rows](
            out, parts, weights, HEADS=heads, WIDTH=width, PARTS=count, num_warps=2
        )
    return out


@triton.jit
def _rms_norm(
    given, added, weight, out, epsilon, WIDTH: tl.constexpr, BLOCK: tl.constexpr, ADDS: tl.constexpr
):  # fmt: skip
    """RMSNorm of one token's hidden state, optionally after an in-place addition."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < WIDTH
    kind = out.dtype.element_ty
    at = row * WIDTH + column
    state = tl.load(given + at, mask=inside, other=0.0).to(tl.float32)
    if ADDS:
        state += tl.load(added + at, mask=inside, other=0.0).to(tl.float32)
        rounded = state.to(kind)
        tl.store(given + at, rounded, mask=inside)
        state = rounded.to(tl.float32)
    shrink = tl.rsqrt(tl.sum(state * state, 0) / WIDTH + epsilon)
    normal = (state * shrink).to(kind).to(tl.float32)
    gain = tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + at, (normal * gain).to(kind), mask=inside)


def rms_norm(
    given: torch.Tensor, weight: torch.Tensor, epsilon: float, added: torch.Tensor | None = None
) -> torch.Tensor:
    """Return the RMSNorm of contiguous hidden states, (tokens, width), after adding `added` to them in place."""
    tokens, width = given.shape
    out = torch.empty_like(given)
    block = triton.next_power_of_2(width)
    _rms_norm[tokens,](
        given, given if added is None else added, weight, out, epsilon, WIDTH=width, BLOCK=block,
        ADDS=added is not None, num_warps=8 if block > 1024 else 1,
    )  # fmt: skip
    return out


@triton.jit
def _silu_mul(given, out, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """SiLU of the first half of a token's values, times the second half."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < WIDTH
    kind = out.dtype.element_ty
    gate = tl.load(given + row * 2 * WIDTH + column, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(given + (row * 2 + 1) * WIDTH + column, mask=inside, other=0.0).to(tl.float32)
    active = (gate / (1 + tl.exp(-gate))).to(kind).to(tl.float32)
    tl.store(out + row * WIDTH + column, (active * up).to(kind), mask=inside)


def silu_mul(given: torch.Tensor) -> torch.Tensor:
    """Return SiLU of the first half of (tokens, 2 × width) times the second half, (tokens, width)."""
    tokens, width = given.shape[0], given.shape[1] // 2
    out = given.new_empty(tokens, width)
    block = 1024
    _silu_mul[tokens, triton.cdiv(width, block)](given, out, WIDTH=width, BLOCK=block, num_warps=4)
    return out


@triton.jit
def _rotate_heads(
    given, query_weight, key_weight, cosine, sine, query, keys, values, slots, epsilon,
    HEADS: tl.constexpr, SHARED: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Process one head of one token: normalize and rotate queries and keys, store keys and values in their slot."""
    token = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    half: tl.constexpr = WIDTH // 2
    column = tl.arange(0, half)
    kind = keys.dtype.element_ty
    at = given + (token * (HEADS + 2 * SHARED) + head) * WIDTH + column
    low, high = tl.load(at).to(tl.float32), tl.load(at + half).to(tl.float32)
    slot = tl.load(slots + token) * SHARED
    if head < HEADS:
        to = query + (token * HEADS + head) * WIDTH
        gain = query_weight
    elif head < HEADS + SHARED:
        to = keys + (slot + head - HEADS) * WIDTH
        gain = key_weight
    else:
        to = values + (slot + head - HEADS - SHARED) * WIDTH
        gain = key_weight
    if head < HEADS + SHARED:
        shrink = tl.rsqrt((tl.sum(low * low, 0) + tl.sum(high * high, 0)) / WIDTH + epsilon)
        low = (low * shrink).to(kind).to(tl.float32) * tl.load(gain + column).to(tl.float32)
        high = (high * shrink).to(kind).to(tl.float32)
        high = high * tl.load(gain + half + column).to(tl.float32)
        low, high = low.to(kind).to(tl.float32), high.to(kind).to(tl.float32)
        turn = token * WIDTH + column
        cosine_low = tl.load(cosine + turn).to(tl.float32)
        cosine_high = tl.load(cosine + turn + half).to(tl.float32)
        sine_low = tl.load(sine + turn).to(tl.float32)
        sine_high = tl.load(sine + turn + half).to(tl.float32)
        first = (low * cosine_low).to(kind).to(tl.float32)
        first += (-high * sine_low).to(kind).to(tl.float32)
        second = (high * cosine_high).to(kind).to(tl.float32)
        second += (low * sine_high).to(kind).to(tl.float32)
        low, high = first, second
    tl.store(to + column, low.to(kind))
    tl.store(to + half + column, high.to(kind))


def rotate_heads(
    given: torch.Tensor,
    norms: tuple[torch.Tensor, torch.Tensor],
    epsilon: float,
    turns: tuple[torch.Tensor, torch.Tensor],
    pages: Any,
    slots: torch.Tensor,
) -> torch.Tensor:
    """Normalize and rotate queries and keys, store keys and values in `pages`, and return the queries.

    `given` contains queries, keys and values, (tokens, (heads + 2 × shared heads) × width); `norms` are the weights for
    queries and keys, (width,) each, and `turns` cosines and sines, (tokens, width) each. Queries are (tokens, heads, width).
    """
    shared, width = pages.keys.shape[2:]
    tokens = given.shape[0]
    heads = given.shape[1] // width - 2 * shared
    query = given.new_empty(tokens, heads, width)
    _rotate_heads[tokens, heads + 2 * shared](
        given, *norms, *turns, query, pages.keys, pages.values,
        slots, epsilon, HEADS=heads, SHARED=shared, WIDTH=width, num_warps=1,
    )  # fmt: skip
    return query
