"""Forward passes of the two halves of the model: the vision tower on images, the language model on dialogues."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training.shape import GRID, MERGED, TOKENS, WIDTH


def encode_images(
    model: Any,
    images: Any,  # (n, 224, 320, 3) uint8
) -> tuple[Any, Any]:
    """Return the tokens of images and their deepstack features for the first layer, each (n, 70, 256)."""
    import torch
    from torch.nn import functional

    visual = model.model.visual
    projection = visual.patch_embed.proj
    # Conv3d, used by the class, takes three times as long in bfloat16 on a CPU as the same matrix product.
    visual.patch_embed.forward = lambda pixels: functional.linear(
        pixels.to(projection.weight.dtype), projection.weight.flatten(1), projection.bias
    )
    try:
        tokens = visual(patches(images), grid_thw=torch.tensor([[1, *GRID]] * len(images)))
    finally:
        del visual.patch_embed.forward
    shape = (len(images), TOKENS, WIDTH)
    return tokens.pooler_output.view(shape), tokens.deepstack_features[0].view(shape)


def patches(
    images: Any,  # (n, 224, 320, 3) uint8
) -> Any:
    """Return the patches of images as Qwen's image processor does, (n * 280, 1536) float32 in -1 … 1."""
    rows, columns = GRID[0] // MERGED, GRID[1] // MERGED
    cut = images.view(len(images), rows, MERGED, 16, columns, MERGED, 16, 3)
    blocks = cut.permute(0, 1, 4, 2, 5, 7, 3, 6).reshape(-1, 3, 1, 256)
    return blocks.expand(-1, 3, 2, 256).reshape(-1, 1536).float() / 127.5 - 1


@dataclass(frozen=True, eq=False)
class Batch:
    """Dialogues padded on the right."""

    ids: NDArray[np.int64]  # (n, tokens) int64 token ids
    images: NDArray[np.int64]  # (num_images,) rows of the features, in display order
    weights: NDArray[np.float32]
    """(n, tokens) float32 loss weight of each token; 0 if it is not learned."""


def batch_of(
    ids: Sequence[NDArray[np.int16]],
    weights: Sequence[NDArray[np.float32]],
    images: Sequence[Sequence[int]],
    padding: int,
) -> Batch:
    """Pad dialogues to a batch. `weights` has the loss weight of each token."""
    shape = len(ids), max(map(len, ids))
    all_ids = np.full(shape, padding, np.int64)
    all_weights = np.zeros(shape, np.float32)
    for row, (row_ids, row_weights) in enumerate(zip(ids, weights, strict=True)):
        all_ids[row, : len(row_ids)] = row_ids
        all_weights[row, : len(row_ids)] = row_weights
    image_rows = np.array(
        [image for dialogue_images in images for image in dialogue_images], np.int64
    )
    return Batch(all_ids, image_rows, all_weights)


def predict(model: Any, batch: Batch, features: tuple[Any, Any] | None) -> tuple[Any, Any]:
    """Return the logits of every learned token, (learned, vocabulary) float32, and its index in the flat batch.

    Padding on the right needs no mask, because no learned token attends to it.
    """
    import torch
    from torch.nn import functional

    text = model.model.language_model
    ids = torch.from_numpy(batch.ids)
    embedded = text.embed_tokens(ids)
    is_image = ids == model.config.image_token_id
    deepstack = None
    if features is not None and is_image.any():
        tokens, deep = (part.reshape(-1, WIDTH).to(embedded.dtype) for part in features)
        embedded = embedded.masked_scatter(is_image[..., None], tokens)
        deepstack = [deep]
    hidden = text(
        inputs_embeds=embedded,
        position_ids=positions(model, ids),
        visual_pos_masks=is_image,
        deepstack_visual_embeds=deepstack,
        use_cache=False,
    ).last_hidden_state
    learned = torch.from_numpy(np.flatnonzero(batch.weights.ravel()))
    previous = hidden.reshape(-1, WIDTH)[learned - 1]
    return functional.linear(previous, text.embed_tokens.weight).float(), learned


def positions(model: Any, ids: Any) -> Any:
    """Return the position ids of dialogues, (3, n, tokens): time, row, column."""
    import torch

    is_image = ids == model.config.image_token_id
    count = int(is_image.sum()) // TOKENS
    position_ids, _ = model.model.get_rope_index(
        ids,
        mm_token_type_ids=is_image.int(),
        image_grid_thw=torch.tensor([[1, *GRID]] * count) if count else None,
        attention_mask=torch.ones_like(ids),
    )
    return position_ids
