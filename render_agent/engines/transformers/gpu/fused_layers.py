"""Fused layers: fewer and larger kernels around the matrix products of known models, on a GPU in half precision.

A fused layer computes the same as the library's layer and rounds in the same places. It is used only in prefill and
decoding calls with the paged cache; other calls use the library's layer. Unknown layers are not fused, which is logged.
"""

from __future__ import annotations

import logging
from typing import Any

import torch
from torch.nn import functional

from render_agent.engines.transformers.attention import current_call, flash_attention
from render_agent.engines.transformers.gpu.kernels import (
    rms_norm,
    rotate_heads,
    rotate_patches,
    silu_mul,
)

LOG = logging.getLogger(__name__)

# Llama layers with per-head norms of Q and K.
TEXT_LAYERS = ("Qwen3VLTextDecoderLayer", "Qwen3DecoderLayer")
VISION_ATTENTIONS = ("Qwen3VLVisionAttention",)  # with rotary embeddings in float32
VISION_MLPS = ("Qwen3VLVisionMLP",)  # with GELU in its tanh approximation


def fuse_layers(model: Any) -> None:
    """Fuse a model's layers in place. Weights that are used together become views of one tensor."""
    if model.dtype not in (torch.bfloat16, torch.float16):
        LOG.info("layers are not fused: the weights are %s", model.dtype)
        return
    known = 0
    with torch.inference_mode(False), torch.no_grad():
        for module in model.modules():
            name = type(module).__name__
            fits = not hasattr(module, "unfused_forward")
            if name in TEXT_LAYERS and fits and _is_plain(module):
                _install(module, FusedTextLayer(module))
            elif name in VISION_ATTENTIONS and fits and _is_plain(module):
                _install(module, FusedVisionAttention(module))
            elif name in VISION_MLPS and fits and _is_plain(module) and _is_tanh_gelu(module):
                _install(module, FusedVisionMLP(module))
            known += hasattr(module, "unfused_forward")
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
        if call is None or "position_embeddings" not in more:
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


class FusedVisionAttention:
    """Attention of the vision tower; the patches of all images are packed, (patches, width)."""

    def __init__(self, attention: Any) -> None:
        self.plain = attention.forward
        self.attention = attention

    def __call__(
        self,
        hidden_states: torch.Tensor,
        cu_seqlens: torch.Tensor,
        position_embeddings: Any = None,
        max_seqlen: int | None = None,
        **more: Any,
    ) -> torch.Tensor:
        """Return the attention output."""
        own = self.attention
        if current_call() is None or max_seqlen is None or position_embeddings is None:
            output: torch.Tensor = self.plain(
                hidden_states,
                cu_seqlens=cu_seqlens,
                position_embeddings=position_embeddings,
                max_seqlen=max_seqlen,
                **more,
            )
            return output
        patches = hidden_states.shape[0]
        qkv = own.qkv(hidden_states).view(patches, 3, own.num_heads, -1)
        cosine, sine = (part.float().contiguous() for part in position_embeddings)
        rotate_patches(qkv, cosine, sine)
        bounds = cu_seqlens.int()
        longest = int(max_seqlen)
        attended = flash_attention(
            qkv[:, 0],
            qkv[:, 1],
            qkv[:, 2],
            (bounds, bounds),
            (longest, longest),
            False,
            own.scaling,
        )
        projected: torch.Tensor = own.proj(attended.reshape(patches, -1))
        return projected


class FusedVisionMLP:
    """The MLP of the vision tower, with the activation fused into the first product."""

    def __init__(self, mlp: Any) -> None:
        self.plain = mlp.forward
        self.first, self.second = mlp.linear_fc1, mlp.linear_fc2

    def __call__(self, hidden_state: torch.Tensor) -> torch.Tensor:
        """Return the output of the MLP, (patches, width)."""
        if current_call() is None or hidden_state.dim() != 2:
            plain: torch.Tensor = self.plain(hidden_state)
            return plain
        inner = torch._addmm_activation(
            self.first.bias, hidden_state, self.first.weight.t(), use_gelu=True
        )
        projected: torch.Tensor = self.second(inner)
        return projected


def _install(module: Any, fused: Any) -> None:
    module.unfused_forward = module.forward
    module.forward = fused


def _is_plain(module: Any) -> bool:
    """True if all linear layers of a module are on a GPU, not quantized and without adapters."""
    linears = [part for part in module.modules() if hasattr(part, "in_features")]
    return all(type(part) is torch.nn.Linear and part.weight.is_cuda for part in linears)


def _is_tanh_gelu(mlp: Any) -> bool:
    samples = torch.tensor([-1.5, 0.3, 2.0])
    return bool(
        torch.allclose(mlp.act_fn(samples), functional.gelu(samples, approximate="tanh"), atol=1e-6)
    )


def _join_weights(*linears: Any) -> torch.Tensor:
    """Concatenate the weights of linear layers, and replace each weight by a view of the result."""
    joined = torch.cat([linear.weight.data for linear in linears])
    for linear, part in zip(
        linears, joined.split([len(linear.weight) for linear in linears]), strict=True
    ):
        linear.weight.data = part
    return joined
