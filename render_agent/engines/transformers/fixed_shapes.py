"""Fixed shapes of model calls, so that results do not depend on which rows share a call (`--reproducible`).

Kernels are selected by the shape of a call. If every call has the same shape, a row of a matrix product depends on its own
inputs only. Prompts are read in blocks that depend on the prompt alone, and only complete blocks are reused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from inspect import signature
from itertools import pairwise
from typing import Any

import torch

from render_agent.engines.families.images import Tensors
from render_agent.engines.families.model_families import Family
from render_agent.engines.transformers.model.inputs import PreparedPrompt

BLOCK_TOKENS = 256  # tokens between two boundaries, as in a page of the cache
MAX_PROMPTS = 16  # prompts per prefill call


@dataclass(frozen=True, slots=True)
class FixedShapes:
    """Sizes of all calls of a run."""

    tokens: int  # tokens per prefill call, including padding; a longer block takes a multiple
    rows: int  # rows per decoding step, including padding
    pad: int = 0  # padding token of prefill calls

    def sizes(self, tokens: int, num_blocks: int) -> tuple[int, int]:
        """Return the tokens of a prefill call and the number of logits it computes, including padding."""
        kept = self.tokens // BLOCK_TOKENS + 3 * MAX_PROMPTS
        return -(-tokens // self.tokens) * self.tokens, max(kept, num_blocks)


# Constants rather than what fits in memory, because results must not depend on free memory.
SHAPES = {"cuda": FixedShapes(2048, 64)}
OTHER_SHAPES = FixedShapes(512, 8)


def fixed_shapes(model: Any, pad: int) -> FixedShapes:
    """Return the shapes for the device of a model with this padding token."""
    return replace(SHAPES.get(model.device.type, OTHER_SHAPES), pad=pad)


def obstacle(model: Any, family: Family) -> str | None:
    """Return why a model cannot be reproducible, as a clause; None if nothing is known to prevent it."""
    config = model.config.get_text_config()
    if family.recurrent:
        return "its layers have recurrent states"
    if any(getattr(config, name, None) for name in ("num_experts", "num_local_experts")):
        return "its layers have experts, whose calls have as many rows as tokens choose them"
    return None


def block_ends(prompt: PreparedPrompt) -> Iterator[int]:
    """Yield the ends of the complete blocks of a prompt: every 256 tokens, or before an image that contains that place."""
    images, last = prompt.images, 0
    for place in range(BLOCK_TOKENS, len(prompt.ids) + 1, BLOCK_TOKENS):
        inside = (i.start for i in images if i.start < place < i.start + i.tokens)
        end = next(inside, place)
        if end > last:
            yield end
            last = end


def blocks(prompt: PreparedPrompt, start: int, end: int) -> list[tuple[int, int]]:
    """Return the start and end of each block between two boundaries; the last one may be incomplete."""
    inner = [place for place in block_ends(prompt) if start < place < end]
    return list(pairwise([start, *inner, end]))


def common_blocks(read: PreparedPrompt | None, prompt: PreparedPrompt, tokens: int) -> int:
    """Return the end of the last complete block within `tokens` that two prompts divide in the same way."""
    common = 0
    for own, other in zip(block_ends(read) if read else (), block_ends(prompt), strict=False):
        if own != other or own > tokens:
            break
        common = own
    return common


@contextmanager
def one_image_per_call(model: Any, images: Sequence[Tensors]) -> Iterator[None]:
    """Compute the features of every image in a separate call, whose shape depends only on the image."""
    inner = model.model
    original, compute = vars(inner).get("get_image_features"), inner.get_image_features
    parameters = signature(compute)

    def features(*args: Any, **more: Any) -> Any:
        given = parameters.bind(*args, **more).arguments
        given |= given.pop("kwargs", {})
        outputs = [
            compute(**given | {name: image[name] for name in given if name in image})
            for image in images
        ]
        fields = {name: [output[name] for output in outputs] for name in outputs[0]}
        fields.pop("last_hidden_state", None)  # not used, and its shapes may differ
        layers = [_join(layer) for layer in zip(*fields.pop("deepstack_features", ()), strict=True)]
        joined = {name: _join(parts) for name, parts in fields.items()}
        return type(outputs[0])(**joined | ({"deepstack_features": layers} if layers else {}))

    inner.get_image_features = features
    try:
        yield
    finally:
        del inner.get_image_features
        if original is not None:
            inner.get_image_features = original


def _join(parts: Sequence[Any]) -> Any:
    """Join the features of several calls: one tensor, or one per image."""
    if isinstance(parts[0], torch.Tensor):
        return torch.cat(list(parts))
    return [image for part in parts for image in part]
