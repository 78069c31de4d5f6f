"""The Triton kernels equal plain PyTorch; on a CPU they run in Triton's interpreter."""

import os

import pytest
import torch
from torch.nn import functional

from render_agent.engines.transformers.attention import DecodeAttention, page_index
from render_agent.engines.transformers.kv_cache import PAGE_TOKENS, LayerPages

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
if DEVICE == "cpu":
    os.environ.setdefault("TRITON_INTERPRET", "1")
# The interpreter of older releases is incompatible with NumPy 2.4.
pytest.importorskip("triton", minversion="3.9" if DEVICE == "cpu" else None)
kernels = pytest.importorskip("render_agent.engines.transformers.gpu.kernels")


def pages_of(lengths, shared, width, dtype):
    """Return randomly ordered pages of several dialogues, with NaN in unused slots, and the page numbers of each."""
    order = torch.randperm(240).tolist()
    needed = [-(-length // PAGE_TOKENS) for length in lengths]
    page_numbers = [[order.pop() for _ in range(count)] for count in needed]
    keys, values = torch.randn(2, 240, PAGE_TOKENS, shared, width, device=DEVICE, dtype=dtype)
    for pages, length in zip(page_numbers, lengths, strict=True):
        if length % PAGE_TOKENS:
            keys[pages[-1], length % PAGE_TOKENS :] = torch.nan
            values[pages[-1], length % PAGE_TOKENS :] = torch.nan
    return LayerPages(keys, values), page_numbers


@pytest.mark.parametrize(
    ("lengths", "heads", "shared", "width"),
    [
        ([1], 4, 2, 32),
        ([255, 256, 257, 1], 4, 4, 16),
        ([1300, 64, 65, 700, 3], 8, 2, 32),
        ([520] * 70, 2, 1, 16),
    ],
)
def test_paged_decode_equals_the_fallback(lengths, heads, shared, width):
    torch.manual_seed(len(lengths))
    lengths = lengths[:16] if DEVICE == "cpu" else lengths
    pages, page_numbers = pages_of(lengths, shared, width, torch.float32)
    query = torch.randn(len(lengths), heads, width, device=DEVICE)
    most = max(map(len, page_numbers))
    padded = [numbers + [0] * (most - len(numbers)) for numbers in page_numbers]
    tables = torch.tensor(padded, dtype=torch.int32, device=DEVICE)
    counts = torch.tensor(lengths, dtype=torch.int32, device=DEVICE)
    rows = [(page_index(p, DEVICE), n) for p, n in zip(page_numbers, lengths, strict=True)]
    expected = DecodeAttention([pages], counts.long(), tables, counts, rows).attend(0, query, 0.3)
    result = kernels.paged_decode(query, pages.keys, pages.values, tables, counts, 0.3)
    torch.testing.assert_close(result, expected, atol=2e-5, rtol=2e-5)


def test_row_of_paged_decode_is_independent_of_other_rows():
    """With a fixed number of rows, as in reproducible runs, the length of the longest row does not matter either."""
    torch.manual_seed(1)
    pages, page_numbers = pages_of([700, 300, 1, 1025], 2, 32, torch.float32)
    query = torch.randn(4, 8, 32, device=DEVICE)

    def attend(order, lengths, most_pages):
        tables = [(page_numbers[row] + [0] * most_pages)[:most_pages] for row in order]
        return kernels.paged_decode(
            query[order],
            pages.keys,
            pages.values,
            torch.tensor(tables, dtype=torch.int32, device=DEVICE),
            torch.tensor(lengths, dtype=torch.int32, device=DEVICE),
            0.3,
        )

    expected = attend([0, 1, 2, 3], [700, 300, 1, 1025], 5)
    padded = attend([2, 0, 2, 2], [1, 700, 1, 1], 3)  # padding rows have one token
    assert padded[1].equal(expected[0])
    assert attend([3, 1, 0, 2], [1025, 300, 700, 1], 7)[2].equal(expected[0])


def plain_norm(states, weight, epsilon):
    exact = states.float()
    normal = exact * torch.rsqrt(exact.pow(2).mean(-1, keepdim=True) + epsilon)
    return weight * normal.to(states.dtype)


DTYPES = [torch.float32, torch.bfloat16] if DEVICE == "cuda" else [torch.float32]


@pytest.mark.parametrize("dtype", DTYPES)
def test_rms_norm_equals_plain_pytorch(dtype):
    states, added = torch.randn(2, 7, 96, device=DEVICE, dtype=dtype)
    weight = torch.randn(96, device=DEVICE, dtype=dtype)
    close = {"atol": 1e-5, "rtol": 1e-5} if dtype == torch.float32 else {"atol": 0.03, "rtol": 0.02}
    result = kernels.rms_norm(states, weight, 1e-6)
    torch.testing.assert_close(result, plain_norm(states, weight, 1e-6), **close)
    residual = states.clone()
    result = kernels.rms_norm(residual, weight, 1e-6, added)
    torch.testing.assert_close(residual, states + added)
    torch.testing.assert_close(result, plain_norm(states + added, weight, 1e-6), **close)


def test_silu_mul_equals_plain_pytorch():
    states = torch.randn(5, 2 * 1100, device=DEVICE)
    gate, up = states.chunk(2, 1)
    torch.testing.assert_close(kernels.silu_mul(states), functional.silu(gate) * up)


def plain_rotation(states, cosine, sine):
    low, high = states.chunk(2, -1)
    rotated_half = torch.cat([-high, low], -1)
    return states * cosine[:, None] + rotated_half * sine[:, None]


def test_heads_are_normalized_rotated_and_stored():
    tokens, heads, shared, width = 6, 4, 2, 16
    pages = LayerPages(*torch.zeros(2, 3, PAGE_TOKENS, shared, width, device=DEVICE))
    states = torch.randn(tokens, (heads + 2 * shared) * width, device=DEVICE)
    weights = torch.randn(2, width, device=DEVICE)
    cosine, sine = torch.randn(2, tokens, width, device=DEVICE)
    slots = torch.tensor([300, 2, 767, 5, 256, 1], device=DEVICE)
    query = kernels.rotate_heads(
        states, (weights[0], weights[1]), 1e-6, (cosine, sine), pages, slots
    )
    parts = states.view(tokens, -1, width).split([heads, shared, shared], 1)
    keys, values = pages.flat
    for result, part, weight in zip((query, keys[slots]), parts, weights, strict=False):
        torch.testing.assert_close(
            result, plain_rotation(plain_norm(part, weight, 1e-6), cosine, sine)
        )
    torch.testing.assert_close(values[slots], parts[2])
    assert keys.abs().sum(-1).count_nonzero() == tokens * shared
