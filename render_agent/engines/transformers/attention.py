"""Attention over the pages of a KV cache: prompts packed one after the other, or one new token a row."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Several
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from render_agent.engines.transformers.kv_cache import PAGE_TOKENS, LayerPages

PAGED = "render_agent_paged"
PACKED_VISION = "render_agent_packed_flash"
"""Names under which the library finds our attention; one with "flash" in it is handed pictures packed."""


class Attending(Protocol):
    """What one call of the model does with the queries, keys and values of its new tokens.

    query (tokens, heads, width), key and value (tokens, shared heads, width) → (tokens, heads, width).
    """

    def __call__(
        self,
        layer: int,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        scale: float | None,
    ) -> torch.Tensor:
        """Return what the queries of one layer attend to."""
        ...


_ATTENDING: ContextVar[Attending] = ContextVar("attending")


@contextmanager
def attending(model: Any, call: Attending) -> Iterator[None]:
    """Let a model's text part attend by `call` within; on a GPU its pictures are packed, too."""
    from transformers import AttentionInterface

    AttentionInterface.register(PAGED, _paged)
    AttentionInterface.register(PACKED_VISION, _packed_vision)
    configs = [(model.config.get_text_config(), PAGED)]
    vision = getattr(model.config, "vision_config", None)
    if vision is not None and hasattr(vision, "spatial_merge_size") and flash_runs(model):
        configs.append((vision, PACKED_VISION))
    before = [config._attn_implementation for config, _ in configs]
    token = _ATTENDING.set(call)
    try:
        for config, name in configs:
            config._attn_implementation = name
        yield
    finally:
        _ATTENDING.reset(token)
        for (config, _), name in zip(configs, before, strict=True):
            config._attn_implementation = name


def current_call() -> _Paged | None:
    """Return how the call under way attends in pages; None in any other call."""
    call = _ATTENDING.get(None)
    return call if isinstance(call, _Paged) else None


class KeyRecorder:
    """Attends within one call alone, and keeps every layer's keys."""

    def __init__(self) -> None:
        self.keys: dict[int, torch.Tensor] = {}

    def __call__(
        self,
        layer: int,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        scale: float | None,
    ) -> torch.Tensor:
        """Return what the queries attend to, each to those before it."""
        self.keys[layer] = key
        return causal(query, key, value, scale)


class _Paged:
    """What reading prompts and writing replies have in common: new keys and values go into the pages first."""

    layers: Several[LayerPages]
    slots: torch.Tensor

    def __call__(
        self,
        layer: int,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        scale: float | None,
    ) -> torch.Tensor:
        """Return what the queries of one layer attend to."""
        keys, values = self.layers[layer].flat
        # Of a model that is laid over several devices, every layer has its pages beside it.
        slots = self.slots.to(keys.device)
        keys.index_copy_(0, slots, key)
        values.index_copy_(0, slots, value)
        return self.attend(layer, query, scale)

    def attend(self, layer: int, query: torch.Tensor, scale: float | None) -> torch.Tensor:
        """Return what queries attend to, whose keys and values are written."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class PackedPrompt:
    """One prompt of a call: its new tokens among those of all, and its pages with the tokens that they hold."""

    start: int
    end: int
    pages: slice | torch.Tensor
    tokens: int


@dataclass(frozen=True)
class PrefillAttention(_Paged):
    """Attention of the new tokens of packed prompts, each to those before it in its own prompt.

    slots: where the new tokens go, (new tokens,) int64. most_patches: of a picture among them. For a GPU
    in half precision all_slots holds those of all prompts' tokens, one prompt after the other, bounds
    the int32 bounds of new and of all tokens, (prompts + 1,) each, and most the longest of each.
    Elsewhere prompts are taken one by one.
    """

    layers: Several[LayerPages]
    slots: torch.Tensor
    prompts: Several[PackedPrompt]
    all_slots: torch.Tensor | None = None
    bounds: tuple[torch.Tensor, torch.Tensor] | None = None
    most: tuple[int, int] = (0, 0)

    def attend(self, layer: int, query: torch.Tensor, scale: float | None) -> torch.Tensor:
        """Return what queries attend to, whose keys and values are written."""
        pages = self.layers[layer]
        if self.all_slots is not None and self.bounds is not None:
            keys, values = (part.index_select(0, self.all_slots) for part in pages.flat)
            return flash(query, keys, values, self.bounds, self.most, True, scale)
        return torch.cat(
            [
                causal(
                    query[prompt.start : prompt.end],
                    _of_pages(pages.keys, prompt.pages, prompt.tokens),
                    _of_pages(pages.values, prompt.pages, prompt.tokens),
                    scale,
                )
                for prompt in self.prompts
            ]
        )


@dataclass(frozen=True)
class DecodeAttention(_Paged):
    """Attention of one new token a row to all tokens of its row.

    slots: where the new tokens go, (rows,) int64. tables: every row's pages, (rows, pages) int32.
    lengths: tokens of every row, the new one included, (rows,) int32. rows: pages and tokens of every row
    where they are taken one by one, as elsewhere than on a GPU with Triton.
    """

    layers: Several[LayerPages]
    slots: torch.Tensor
    tables: torch.Tensor
    lengths: torch.Tensor
    rows: Several[tuple[slice | torch.Tensor, int]] | None = None

    def attend(self, layer: int, query: torch.Tensor, scale: float | None) -> torch.Tensor:
        """Return what queries attend to, whose keys and values are written."""
        pages = self.layers[layer]
        count, heads, width = query.shape
        if self.rows is None:
            from render_agent.engines.transformers.gpu.kernels import paged_decode

            scale = scale or width**-0.5
            return paged_decode(query, pages.keys, pages.values, self.tables, self.lengths, scale)
        shared = pages.keys.shape[2]
        grouped = query.reshape(count, 1, shared, heads // shared, width)
        attended = []
        for queries, (own, tokens) in zip(grouped, self.rows, strict=True):
            keys, values = (
                _of_pages(part, own, tokens).transpose(0, 1)[None]
                for part in (pages.keys, pages.values)
            )
            attended.append(scaled_dot_product_attention(queries, keys, values, scale=scale))
        return torch.cat(attended).reshape(count, heads, -1)


def causal(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float | None
) -> torch.Tensor:
    """Return what the last tokens of one prompt attend to, each to all before it: (new tokens, heads, width).

    query (new tokens, heads, width), key and value (tokens, shared heads, width); nothing is repeated
    for the heads that share keys.
    """
    new, heads, width = query.shape
    tokens, shared, _ = key.shape
    group = heads // shared
    grouped = query.view(new, shared, group, width).permute(1, 2, 0, 3)
    keys, values = (
        part.transpose(0, 1)[:, None].expand(-1, group, -1, -1) for part in (key, value)
    )
    mask = None
    if new < tokens:
        mask = torch.ones(new, tokens, dtype=torch.bool, device=query.device).tril(tokens - new)
    # Memory-efficient attention gives wrong numbers for such strides (PyTorch 2.11 on CUDA).
    with sdpa_kernel(SDPBackend.MATH) if query.is_cuda else nullcontext():
        attended = scaled_dot_product_attention(
            grouped, keys, values, attn_mask=mask, is_causal=mask is None and new > 1, scale=scale
        )
    return attended.permute(2, 0, 1, 3).reshape(new, heads, -1)


def flash(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bounds: tuple[Any, Any],
    most: tuple[int, int],
    is_causal: bool,
    scale: float | None,
) -> torch.Tensor:
    """Return flash attention of packed sequences, (tokens, heads, width), on a GPU in half precision.

    bounds: int32 bounds of queries and of keys. most: the longest of each. The last query of a sequence sees its
    last key.
    """
    found: torch.Tensor = torch.ops.aten._flash_attention_forward(
        query, key, value, *bounds, *most, 0.0, is_causal, False, scale=scale
    )[0]
    return found


def _paged(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **more: Any,
) -> tuple[torch.Tensor, None]:
    """The library's interface: all tokens of a call stand in one row, (1, heads, tokens, width)."""
    query, key, value = (part[0].transpose(0, 1) for part in (query, key, value))
    attended = _ATTENDING.get()(module.layer_idx, query, key, value, scaling)
    return attended[None], None


def _packed_vision(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    cu_seq_lens_q: torch.Tensor | None = None,
    max_length_q: Any = None,
    **more: Any,
) -> tuple[torch.Tensor, None]:
    """The library's interface for pictures, one after the other: (1, heads, patches, width)."""
    assert cu_seq_lens_q is not None
    query, key, value = (part[0].transpose(0, 1) for part in (query, key, value))
    bounds, most = cu_seq_lens_q.int(), int(max_length_q)
    found = flash(query, key, value, (bounds, bounds), (most, most), False, scaling)
    return found[None], None


def page_index(pages: Several[int], device: Any) -> slice | torch.Tensor:
    """Return what picks pages out of all: a slice, which copies nothing, where they stand side by side."""
    first = pages[0]
    if list(pages) == [*range(first, first + len(pages))]:
        return slice(first, first + len(pages))
    return torch.tensor(pages, device=device)


def _of_pages(part: torch.Tensor, pages: slice | torch.Tensor, tokens: int) -> torch.Tensor:
    """Return the first tokens of some pages, (tokens, heads, width)."""
    chosen = pages if isinstance(pages, slice) else pages.to(part.device)
    return part[chosen].flatten(0, 1)[:tokens]


def on_one_gpu(model: Any) -> bool:
    """Whether all of a model lies on one NVIDIA or AMD GPU."""
    places = getattr(model, "hf_device_map", None) or {}
    return bool(model.device.type == "cuda" and len(set(places.values())) <= 1)


def flash_runs(model: Any) -> bool:
    """Whether PyTorch's flash attention can attend for a model: on one GPU of Ampere or later, in half precision."""
    half = model.dtype in (torch.bfloat16, torch.float16)
    return half and on_one_gpu(model) and torch.cuda.get_device_capability(model.device) >= (8, 0)


def page_slots(tables: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Return the slots of one token a row, (rows,) int64: tables (rows, pages), places (rows,)."""
    page = tables.gather(1, (places // PAGE_TOKENS).long()[:, None])[:, 0].long()
    return page * PAGE_TOKENS + places % PAGE_TOKENS
