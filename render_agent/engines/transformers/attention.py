"""Attention over the pages of a KV cache, for packed prompts (prefill) and for one new token per row (decoding)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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

# Names of our implementations in the library. It packs images only for implementations with "flash" in their name.
PAGED = "render_agent_paged"
PACKED_VISION = "render_agent_packed_flash"
UNMASKED_SDPA = "render_agent_sdpa"  # PyTorch's attention with our masks

MAX_FLASH_WIDTH = 256  # limit of PyTorch's flash attention on the width of a head
UNSUPPORTED = ("softcap", "s_aux")  # arguments of models with capped scores and attention sinks

# The attention of the current model call.
_CURRENT_CALL: ContextVar[_PagedAttention | KeyRecorder] = ContextVar("attending")


@contextmanager
def attend_with(model: Any, call: _PagedAttention | KeyRecorder) -> Iterator[None]:
    """Use `call` as the attention of a model's text part; on a GPU, also pack images in the vision part."""
    from transformers import AttentionInterface

    AttentionInterface.register(PAGED, _paged)
    AttentionInterface.register(PACKED_VISION, _packed_vision)
    configs = [(model.config.get_text_config(), PAGED)]
    vision = getattr(model.config, "vision_config", None)
    uses_flash = isinstance(call, PrefillAttention) and call.bounds is not None
    if vision is not None and hasattr(vision, "spatial_merge_size") and uses_flash:
        configs.append((vision, PACKED_VISION))
    originals = [config._attn_implementation for config, _ in configs]
    token = _CURRENT_CALL.set(call)
    try:
        for config, name in configs:
            config._attn_implementation = name
        with call.states.installed() if call.states is not None else nullcontext():
            yield
    finally:
        _CURRENT_CALL.reset(token)
        for (config, _), name in zip(configs, originals, strict=True):
            config._attn_implementation = name


def logits_of(
    model: Any,
    call: _PagedAttention | KeyRecorder,
    ids: torch.Tensor,
    positions: torch.Tensor,
    logits_to_keep: int | torch.Tensor,
    **images: torch.Tensor,
) -> torch.Tensor:
    """Call the model on tokens, (tokens,), at positions, (axes, tokens); return the logits, (kept tokens, vocabulary).

    `logits_to_keep` is the number of last tokens (0 for all) or the indices of tokens. Raises any error of the model.
    """
    with torch.inference_mode(), attend_with(model, call):
        output = model(
            input_ids=ids[None],
            attention_mask=None,
            position_ids=positions if len(positions) == 1 else positions[:, None],
            use_cache=False,
            logits_to_keep=logits_to_keep,
            **images,
        )
    logits: torch.Tensor = output.logits[0]
    return logits


def unmask_padding_rows(model: Any) -> None:
    """Let masked padding attend to all keys, so that no query is without a key. Its results are not used.

    Some GPU kernels return NaN for a query without keys, which then spreads to other rows.
    """
    from transformers import AttentionInterface
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

    def unmasked(*args: Any, **more: Any) -> torch.Tensor | None:
        mask: torch.Tensor | None = sdpa_mask(*args, **more)
        if mask is None or mask.shape[-2] == 1:  # a single query always attends to its own key
            return mask
        return mask | ~mask.any(-1, keepdim=True)

    config = model.config.get_text_config()
    if config._attn_implementation == "sdpa":
        AttentionInterface.register(UNMASKED_SDPA, sdpa_attention_forward)
        AttentionMaskInterface.register(UNMASKED_SDPA, unmasked)
        config._attn_implementation = UNMASKED_SDPA


def current_call() -> _PagedAttention | None:
    """Return the paged attention of the current model call, or None."""
    call = _CURRENT_CALL.get(None)
    return call if isinstance(call, _PagedAttention) else None


class KeyRecorder:
    """Attention for a trial call with a single token, which records the keys and values of every layer."""

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
        """Return the attention output; the token attends only to itself."""
        self.layers[layer] = key, value
        self.has_windows |= window is not None
        return causal_attention(query, key, value, scale)


@dataclass(frozen=True)
class _PagedAttention:
    """Base class of prefill and decoding attention, which first stores new keys and values in the pages."""

    layers: Mapping[int, LayerPages]
    slots: torch.Tensor  # slots of the new tokens, (tokens,) int64
    states: StateCall | None = field(default=None, kw_only=True)
    """Use of recurrent states; None if the model has none."""
    fused: bool = field(default=True, kw_only=True)  # use fused layers, if the model has any

    def __call__(
        self,
        layer: int,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        scale: float | None,
        window: int | None = None,
    ) -> torch.Tensor:
        """Store keys and values, and return the attention output of one layer, (tokens, heads, value width).

        `query` is (tokens, heads, width), `key` and `value` (tokens, shared heads, width); `window` is the number of
        tokens that a query attends to, including its own.
        """
        keys, values = self.layers[layer].flat
        # If the model is distributed over several devices, the pages are on the device of their layer.
        slots = self.slots.to(keys.device)
        keys.index_copy_(0, slots, key)
        values.index_copy_(0, slots, value)
        return self.attend(layer, query, scale, window)

    def attend(
        self, layer: int, query: torch.Tensor, scale: float | None, window: int | None = None
    ) -> torch.Tensor:
        """Return the attention output for queries whose keys and values are already stored."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class PackedPrompt:
    """One prompt of a prefill call."""

    start: int  # index of its first new token among those of the call
    end: int  # index after its last new token
    pages: slice | torch.Tensor
    tokens: int  # number of tokens in the pages, including the new ones
    images: Sequence[tuple[int, int]] = ()
    """Start and end of new images in the prompt, for layers with bidirectional attention within an image."""

    def mask(self, window: int | None, two_way: TwoWay, device: Any) -> torch.Tensor | None:
        """Return the attention mask of the new tokens, (new tokens, tokens) bool; None if it is simply causal."""
        if window is not None and self.tokens <= window:
            window = None
        if window is None and (two_way == "never" or not self.images):
            return None
        first = self.tokens - (self.end - self.start)
        queries = torch.arange(first, self.tokens, device=device)[:, None]
        keys = torch.arange(self.tokens, device=device)[None]
        in_window = keys > queries - (self.tokens if window is None else window)
        mask = (keys <= queries) & in_window
        for start, end in self.images if two_way != "never" else ():
            rows = slice(start - first, end - first)
            mask[rows, start:end] = in_window[rows, start:end] if two_way != "beyond" else True
        return mask


@dataclass(frozen=True)
class PrefillAttention(_PagedAttention):
    """Attention of the new tokens of packed prompts to their own prompts.

    Flash attention for all prompts at once is used if `all_slots`, `bounds` and `max_lengths` are set, heads are narrow
    enough, and no layer has bidirectional images. Otherwise prompts are computed one at a time.
    """

    prompts: Sequence[PackedPrompt]
    all_slots: torch.Tensor | None = None
    """Slots of all tokens of all prompts, one prompt after the other."""
    bounds: tuple[torch.Tensor, torch.Tensor] | None = None
    """Bounds of the prompts among the new tokens and among all tokens, (prompts + 1,) int32 each."""
    max_lengths: tuple[int, int] = (0, 0)  # longest prompt in new tokens and in all tokens
    two_way: TwoWay = "never"  # layers with bidirectional attention within an image

    def attend(
        self, layer: int, query: torch.Tensor, scale: float | None, window: int | None = None
    ) -> torch.Tensor:
        pages = self.layers[layer]
        two_way = self.two_way if window is not None or self.two_way != "sliding" else "never"
        width, value_width = query.shape[-1], pages.values.shape[-1]
        if (
            self.all_slots is not None
            and self.bounds is not None
            and (two_way == "never" or not any(prompt.images for prompt in self.prompts))
            and width == value_width <= MAX_FLASH_WIDTH
        ):
            keys, values = (part.index_select(0, self.all_slots) for part in pages.flat)
            return flash_attention(
                query, keys, values, self.bounds, self.max_lengths, True, scale, window
            )
        padding = query.new_zeros(len(query) - self.prompts[-1].end, query.shape[1], value_width)
        return torch.cat(
            [
                causal_attention(
                    query[prompt.start : prompt.end],
                    _gather_tokens(pages.keys, prompt.pages, prompt.tokens),
                    _gather_tokens(pages.values, prompt.pages, prompt.tokens),
                    scale,
                    prompt.mask(window, two_way, query.device),
                )
                for prompt in self.prompts
            ]
            + [padding]
        )


@dataclass(frozen=True)
class DecodeAttention(_PagedAttention):
    """Attention of one new token per row to all tokens of its row."""

    tables: torch.Tensor  # pages of every row, (rows, pages) int32
    lengths: torch.Tensor  # number of tokens of every row, including the new one, (rows,) int32
    rows: Sequence[tuple[slice | torch.Tensor, int]] | None = None
    """Pages and number of tokens of every row, to compute rows one at a time; None to use the Triton kernel."""

    def attend(
        self, layer: int, query: torch.Tensor, scale: float | None, window: int | None = None
    ) -> torch.Tensor:
        pages = self.layers[layer]
        count, heads, width = query.shape
        if self.rows is None:
            from render_agent.engines.transformers.gpu.kernels import paged_decode

            if window is not None:
                raise NotImplementedError("paged_decode does not support windows")
            scale = scale or width**-0.5
            return paged_decode(query, pages.keys, pages.values, self.tables, self.lengths, scale)
        shared = pages.keys.shape[2]
        grouped = query.reshape(count, 1, shared, heads // shared, width)
        outputs = []
        for queries, (row_pages, tokens) in zip(grouped, self.rows, strict=True):
            first = 0 if window is None else max(0, tokens - window)
            keys, values = (
                _gather_tokens(part, row_pages, tokens)[first:].transpose(0, 1)[None]
                for part in (pages.keys, pages.values)
            )
            outputs.append(scaled_dot_product_attention(queries, keys, values, scale=scale))
        return torch.cat(outputs).reshape(count, heads, -1)


def causal_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    scale: float | None,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return the causal attention output of the last tokens of one prompt, (new tokens, heads, width).

    `query` is (new tokens, heads, width), `key` and `value` (tokens, shared heads, width). `mask` is (new tokens, tokens)
    bool, or None for the causal mask.
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
    # Memory-efficient attention returns wrong results for these strides (PyTorch 2.11 on CUDA).
    with sdpa_kernel(SDPBackend.MATH) if query.is_cuda else nullcontext():
        output = scaled_dot_product_attention(
            grouped, keys, values, attn_mask=mask, is_causal=mask is None and new > 1, scale=scale
        )
    return output.permute(2, 0, 1, 3).reshape(new, heads, -1)


def flash_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bounds: tuple[Any, Any],
    max_lengths: tuple[int, int],
    is_causal: bool,
    scale: float | None,
    window: int | None = None,
) -> torch.Tensor:
    """Return the flash attention output of packed sequences, (tokens, heads, width), on a GPU in half precision.

    `bounds` of the sequences among queries and keys are (sequences + 1,) int32 each, `max_lengths` the longest ones. With
    `is_causal`, the last query of a sequence attends to its last key.
    """
    sides = {} if window is None else {"window_size_left": window - 1, "window_size_right": 0}
    output: torch.Tensor = torch.ops.aten._flash_attention_forward(
        query, key, value, *bounds, *max_lengths, 0.0, is_causal, False, scale=scale, **sides
    )[0]
    return output


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
    """Attention function for the library; all tokens of a call are in one row, (1, heads, tokens, width)."""
    for name in UNSUPPORTED:
        if more.get(name) is not None:
            raise NotImplementedError(f"attention with {name} is not supported")
    query, key, value = (part[0].transpose(0, 1) for part in (query, key, value))
    output = _CURRENT_CALL.get()(module.layer_idx, query, key, value, scaling, sliding_window)
    return output[None], None


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
    """Attention function for the library's vision towers; images are packed, (1, heads, patches, width)."""
    assert cu_seq_lens_q is not None
    query, key, value = (part[0].transpose(0, 1) for part in (query, key, value))
    bounds, longest = cu_seq_lens_q.int(), int(max_length_q)
    output = flash_attention(
        query, key, value, (bounds, bounds), (longest, longest), False, scaling
    )
    return output[None], None


def page_index(pages: Sequence[int], device: Any) -> slice | torch.Tensor:
    """Return an index of pages: a slice, which avoids a copy, if they are consecutive."""
    first = pages[0]
    if list(pages) == [*range(first, first + len(pages))]:
        return slice(first, first + len(pages))
    return torch.tensor(pages, device=device)


def _gather_tokens(part: torch.Tensor, pages: slice | torch.Tensor, tokens: int) -> torch.Tensor:
    """Return the keys or values of the first tokens in some pages, (tokens, heads, width)."""
    index = pages if isinstance(pages, slice) else pages.to(part.device)
    return part[index].flatten(0, 1)[:tokens]


def is_on_one_gpu(model: Any) -> bool:
    """True if the whole model is on one NVIDIA or AMD GPU."""
    device_map = getattr(model, "hf_device_map", None) or {}
    return bool(model.device.type == "cuda" and len(set(device_map.values())) <= 1)


def can_use_flash(model: Any) -> bool:
    """True if PyTorch's flash attention supports a model: one GPU, Ampere or later, half precision."""
    is_half = model.dtype in (torch.bfloat16, torch.float16)
    return (
        is_half
        and is_on_one_gpu(model)
        and torch.cuda.get_device_capability(model.device) >= (8, 0)
    )


def page_slots(tables: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """Return the slot of the token at an index of each row, (rows,) int64, given the rows' pages, (rows, pages)."""
    page = tables.gather(1, (indices // PAGE_TOKENS).long()[:, None])[:, 0].long()
    return page * PAGE_TOKENS + indices % PAGE_TOKENS
