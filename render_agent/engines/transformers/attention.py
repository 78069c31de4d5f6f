"""Attention over the pages of a KV cache: prompts packed one after the other, or one new token a row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Several
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from render_agent.engines.families.model_families import TwoWay
from render_agent.engines.transformers.kv_cache import PAGE_TOKENS, LayerPages
from render_agent.engines.transformers.model.recurrent_state import StateCall

PAGED = "render_agent_paged"
PACKED_VISION = "render_agent_packed_flash"
"""Names under which the library finds our attention; one with "flash" in it is handed pictures packed."""

SEEING = "render_agent_sdpa"
"""PyTorch's attention as the library calls it, with masks of ours."""

FLASH_WIDTH = 256
"""The widest heads that PyTorch's flash attention takes."""

UNKNOWN = ("softcap", "s_aux")
"""What some models change scores by that this attention knows nothing of: caps, and sinks beside the keys."""


_ATTENDING: ContextVar[_Paged | KeyRecorder] = ContextVar("attending")
"""What one call of the model does with the queries, keys and values of its new tokens."""


@contextmanager
def attending(model: Any, call: _Paged | KeyRecorder) -> Iterator[None]:
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
        with call.states.installed() if call.states is not None else nullcontext():
            yield
    finally:
        _ATTENDING.reset(token)
        for (config, _), name in zip(configs, before, strict=True):
            config._attn_implementation = name


def logits_of(
    model: Any,
    call: _Paged | KeyRecorder,
    ids: torch.Tensor,
    places: torch.Tensor,
    kept: int | torch.Tensor,
    **pictures: torch.Tensor,
) -> torch.Tensor:
    """Return the logits that one call of the model gives, (tokens, vocabulary), attending by `call`.

    ids: (tokens,). places: their positions, (axes, tokens). kept: behind which tokens logits are asked for, the last
    so many (0: all) or some. Raises whatever the model causes.
    """
    with torch.inference_mode(), attending(model, call):
        output = model(
            input_ids=ids[None],
            attention_mask=None,
            position_ids=places if len(places) == 1 else places[:, None],
            use_cache=False,
            logits_to_keep=kept,
            **pictures,
        )
    logits: torch.Tensor = output.logits[0]
    return logits


def leave_no_row_blind(model: Any) -> None:
    """Let masked padding attend to all keys, so that no query is left without one; its results are not used.

    Some kernels of GPUs make NaN of a row without a key, which then spread.
    """
    from transformers import AttentionInterface
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

    def seeing(*args: Any, **more: Any) -> torch.Tensor | None:
        mask: torch.Tensor | None = sdpa_mask(*args, **more)
        if mask is None or mask.shape[-2] == 1:  # a single query sees its own key
            return mask
        return mask | ~mask.any(-1, keepdim=True)

    config = model.config.get_text_config()
    if config._attn_implementation == "sdpa":
        AttentionInterface.register(SEEING, sdpa_attention_forward)
        AttentionMaskInterface.register(SEEING, seeing)
        config._attn_implementation = SEEING


def current_call() -> _Paged | None:
    """Return how the call under way attends in pages; None in any other call."""
    call = _ATTENDING.get(None)
    return call if isinstance(call, _Paged) else None


class KeyRecorder:
    """Attends within one call of one token alone, and keeps every layer's keys and values."""

    def __init__(self, states: StateCall | None = None) -> None:
        self.states = states
        self.layers: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self.has_windows = False

    def __call__(
        self,
        layer: int,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        scale: float | None,
        window: int | None = None,
    ) -> torch.Tensor:
        """Return what the query attends to, which is its own key alone."""
        self.layers[layer] = key, value
        self.has_windows |= window is not None
        return causal(query, key, value, scale)


@dataclass(frozen=True)
class _Paged:
    """What reading prompts and writing replies have in common: new keys and values go into the pages first.

    query and key (tokens, heads, width), where heads of queries may share one of keys, value (tokens, shared heads,
    its width) → (tokens, heads, value's width). window: how many tokens a query of this layer sees, its own the last
    of them; None for all. slots: where the new tokens go, (tokens,) int64. states: what recurrent layers go on from.
    """

    layers: Mapping[int, LayerPages]
    slots: torch.Tensor
    states: StateCall | None = field(default=None, kw_only=True)

    def __call__(
        self,
        layer: int,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        scale: float | None,
        window: int | None = None,
    ) -> torch.Tensor:
        """Return what the queries of one layer attend to."""
        keys, values = self.layers[layer].flat
        # Of a model that is laid over several devices, every layer has its pages beside it.
        slots = self.slots.to(keys.device)
        keys.index_copy_(0, slots, key)
        values.index_copy_(0, slots, value)
        return self.attend(layer, query, scale, window)

    def attend(
        self, layer: int, query: torch.Tensor, scale: float | None, window: int | None = None
    ) -> torch.Tensor:
        """Return what queries attend to, whose keys and values are written."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class PackedPrompt:
    """One prompt of a call: its new tokens among those of all, and its pages with the tokens that they hold.

    pictures: where new pictures begin and end in the prompt, for layers where the tokens of one see each other.
    """

    start: int
    end: int
    pages: slice | torch.Tensor
    tokens: int
    pictures: Several[tuple[int, int]] = ()

    def mask(self, window: int | None, two_way: TwoWay, device: Any) -> torch.Tensor:
        """Return what each new token sees, (new tokens, tokens) bool; it always sees itself."""
        first = self.tokens - (self.end - self.start)
        asks = torch.arange(first, self.tokens, device=device)[:, None]
        seen = torch.arange(self.tokens, device=device)[None]
        near = seen > asks - (self.tokens if window is None else window)
        mask = (seen <= asks) & near
        for start, end in self.pictures if two_way != "never" else ():
            rows = slice(start - first, end - first)
            mask[rows, start:end] = near[rows, start:end] if two_way != "beyond" else True
        return mask


@dataclass(frozen=True)
class PrefillAttention(_Paged):
    """Attention of the new tokens of packed prompts, each to those before it in its own prompt.

    two_way: in which layers the tokens of one picture see each other. For a GPU in half precision all_slots holds
    the slots of all prompts' tokens, one prompt after the other, bounds the int32 bounds of new and of all tokens,
    (prompts + 1,) each, and most the longest of each. Elsewhere, and where heads are too wide or pictures are seen
    both ways, prompts are taken one by one.
    """

    prompts: Several[PackedPrompt]
    all_slots: torch.Tensor | None = None
    bounds: tuple[torch.Tensor, torch.Tensor] | None = None
    most: tuple[int, int] = (0, 0)
    two_way: TwoWay = "never"
    _masks: dict[tuple[int, int | None, TwoWay], torch.Tensor] = field(default_factory=dict)

    def attend(
        self, layer: int, query: torch.Tensor, scale: float | None, window: int | None = None
    ) -> torch.Tensor:
        """Return what queries attend to, whose keys and values are written."""
        pages = self.layers[layer]
        both = self.two_way if window is not None or self.two_way != "sliding" else "never"
        width, value_width = query.shape[-1], pages.values.shape[-1]
        if (
            self.all_slots is not None
            and self.bounds is not None
            and (both == "never" or not any(prompt.pictures for prompt in self.prompts))
            and width == value_width <= FLASH_WIDTH
        ):
            keys, values = (part.index_select(0, self.all_slots) for part in pages.flat)
            return flash(query, keys, values, self.bounds, self.most, True, scale, window)
        return torch.cat(
            [
                causal(
                    query[prompt.start : prompt.end],
                    _of_pages(pages.keys, prompt.pages, prompt.tokens),
                    _of_pages(pages.values, prompt.pages, prompt.tokens),
                    scale,
                    self._mask(number, window, both, query.device),
                )
                for number, prompt in enumerate(self.prompts)
            ]
        )

    def _mask(
        self, number: int, window: int | None, both: TwoWay, device: Any
    ) -> torch.Tensor | None:
        """Return the attention mask of a prompt's new tokens, made once for all layers; None where it is plainly causal."""
        prompt = self.prompts[number]
        if window is not None and prompt.tokens <= window:
            window = None
        if not prompt.pictures:
            both = "never"
        if window is None and both == "never":
            return None
        key = number, window, both
        if key not in self._masks or self._masks[key].device != device:
            self._masks[key] = prompt.mask(window, both, device)
        return self._masks[key]


@dataclass(frozen=True)
class DecodeAttention(_Paged):
    """Attention of one new token a row to all tokens of its row.

    tables: every row's pages, (rows, pages) int32. lengths: tokens of every row, the new one included, (rows,) int32.
    rows: pages and tokens of every row where they are taken one by one, as elsewhere than on a GPU with Triton.
    """

    tables: torch.Tensor
    lengths: torch.Tensor
    rows: Several[tuple[slice | torch.Tensor, int]] | None = None

    def attend(
        self, layer: int, query: torch.Tensor, scale: float | None, window: int | None = None
    ) -> torch.Tensor:
        """Return what queries attend to, whose keys and values are written."""
        pages = self.layers[layer]
        count, heads, width = query.shape
        if self.rows is None:
            from render_agent.engines.transformers.gpu.kernels import paged_decode

            if window is not None:
                raise NotImplementedError("paged_decode knows no window")
            scale = scale or width**-0.5
            return paged_decode(query, pages.keys, pages.values, self.tables, self.lengths, scale)
        shared = pages.keys.shape[2]
        grouped = query.reshape(count, 1, shared, heads // shared, width)
        attended = []
        for queries, (own, tokens) in zip(grouped, self.rows, strict=True):
            first = 0 if window is None else max(0, tokens - window)
            keys, values = (
                _of_pages(part, own, tokens)[first:].transpose(0, 1)[None]
                for part in (pages.keys, pages.values)
            )
            attended.append(scaled_dot_product_attention(queries, keys, values, scale=scale))
        return torch.cat(attended).reshape(count, heads, -1)


def causal(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    scale: float | None,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return what the last tokens of one prompt attend to, each to all before it: (new tokens, heads, width).

    query (new tokens, heads, width), key and value (tokens, shared heads, width); nothing is repeated
    for the heads that share keys. mask: what each sees, (new tokens, tokens) bool, where that is not all before it.
    """
    new, heads, width = query.shape
    tokens, shared, _ = key.shape
    group = heads // shared
    grouped = query.view(new, shared, group, width).permute(1, 2, 0, 3)
    keys, values = (
        part.transpose(0, 1)[:, None].expand(-1, group, -1, -1) for part in (key, value)
    )
    if mask is None and new < tokens:
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
    window: int | None = None,
) -> torch.Tensor:
    """Return flash attention of packed sequences, (tokens, heads, width), on a GPU in half precision.

    bounds: int32 bounds of queries and of keys. most: the longest of each. The last query of a sequence sees its
    last key. window: how many keys a query sees.
    """
    sides = {} if window is None else {"window_size_left": window - 1, "window_size_right": 0}
    attended: torch.Tensor = torch.ops.aten._flash_attention_forward(
        query, key, value, *bounds, *most, 0.0, is_causal, False, scale=scale, **sides
    )[0]
    return attended


def _paged(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    **more: Any,
) -> tuple[torch.Tensor, None]:
    """The library's interface: all tokens of a call stand in one row, (1, heads, tokens, width).

    NotImplementedError where a layer's scores are made in a way that is not ours.
    """
    for name in UNKNOWN:
        if more.get(name) is not None:
            raise NotImplementedError(f"attention with {name} is not known")
    query, key, value = (part[0].transpose(0, 1) for part in (query, key, value))
    attended = _ATTENDING.get()(module.layer_idx, query, key, value, scaling, sliding_window)
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
    attended = flash(query, key, value, (bounds, bounds), (most, most), False, scaling)
    return attended[None], None


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
