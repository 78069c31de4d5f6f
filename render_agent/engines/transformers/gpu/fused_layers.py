"""Fused layers: fewer and larger kernels around the matrix products of known models, on a GPU in half precision.

A fused layer computes the same as the library's layer and rounds in the same places. It is used only in prefill and
decoding calls with the paged cache; other calls use the library's layer. Unknown layers are not fused, which is logged.
"""

from __future__ import annotations

import logging
from typing import Any

import torch
from torch.nn import functional

from render_agent.engines.transformers.attention import current_call
from render_agent.engines.transformers.gpu.kernels import rms_norm, rotate_heads, silu_mul

LOG = logging.getLogger(__name__)

# Llama layers with per-head norms of Q and K.
TEXT_LAYERS = ("Qwen3VLTextDecoderLayer", "Qwen3DecoderLayer")


def fuse_layers(model: Any) -> None:
    """Fuse a model's layers in place. Weights that are used together become views of one tensor."""
    if model.dtype not in (torch.bfloat16, torch.float16):
        LOG.info("layers are not fused: the weights are %s", model.dtype)
        return
    known = 0
    with torch.inference_mode(False), torch.no_grad():
        for layer in model.modules():
            if type(layer).__name__ in TEXT_LAYERS and _is_plain(layer):
                if not isinstance(layer.forward, FusedTextLayer):
                    layer.forward = FusedTextLayer(layer)
                known += 1
    if not known:
        LOG.info("layers are not fused: %s contains no known layers", type(model).__name__)


class FusedTextLayer:
    """A layer of the language model; input and output are hidden states, (1, tokens, width)."""

    def __init__(self, layer: Any) -> None:
        attention, mlp = layer.self_attn, layer.mlp
        self.plain = layer.forward
        self.index: int = attention.layer_idx
        self.scale: float = attention.scaling
        self.qkv = _join_weights(attention.q_proj, attention.k_proj, attention.v_proj)
        self.gate_up = _join_weights(mlp.gate_proj, mlp.up_proj)
        self.out, self.down = attention.o_proj.weight, mlp.down_proj.weight
        self.norms = attention.q_norm.weight, attention.k_norm.weight
        self.before, self.between = layer.input_layernorm, layer.post_attention_layernorm
        self.epsilon: float = self.before.variance_epsilon

    def __call__(self, hidden_states: torch.Tensor, *args: Any, **more: Any) -> torch.Tensor:
        """Return the hidden states after the layer; the input is overwritten."""
        call = current_call()
        if call is None or not call.fused or "position_embeddings" not in more:
            states: torch.Tensor = self.plain(hidden_states, *args, **more)
            return states
        state = hidden_states[0]
        cosine, sine = (part[0].contiguous() for part in more["position_embeddings"])
        normed = rms_norm(state, self.before.weight, self.epsilon)
        query = rotate_heads(
            functional.linear(normed, self.qkv),
            self.norms,
            self.epsilon,
            (cosine, sine),
            call.layers[self.index],
            call.slots,
        )
        attended = call.attend(self.index, query, self.scale).flatten(1)
        added = functional.linear(attended, self.out)
        normed = rms_norm(state, self.between.weight, self.epsilon, added)
        inner = silu_mul(functional.linear(normed, self.gate_up))
        return state.add_(functional.linear(inner, self.down))[None]


def _is_plain(module: Any) -> bool:
    """True if all linear layers of a module are on a GPU, not quantized and without adapters."""
    linears = [part for part in module.modules() if hasattr(part, "in_features")]
    return all(type(part) is torch.nn.Linear and part.weight.is_cuda for part in linears)


def _join_weights(*linears: Any) -> torch.Tensor:
    """Concatenate the weights of linear layers, and replace each weight by a view of the result."""
    joined = torch.cat([linear.weight.data for linear in linears])
    for linear, part in zip(
        linears, joined.split([len(linear.weight) for linear in linears]), strict=True
    ):
        linear.weight.data = part
    return joined
