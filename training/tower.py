"""The vision tower over many pictures of one size at once: the model's own weights, in fewer and larger steps.

The model's own forward attends picture by picture; trained on pictures of one size, it need not. A test
holds the two to the same output.
"""

from __future__ import annotations

from typing import Any

from training.shape import GRID, MERGED, TOKENS, WIDTH


class Tower:
    """Runs the vision tower of a Qwen3-VL on a batch of pictures of 224 x 320 pixels.

    model: the whole model, in the number format that the tower shall run in.
    """

    def __init__(self, model: Any) -> None:
        import torch
        from transformers.models.qwen3_vl import modeling_qwen3_vl as library

        self.visual = model.model.visual
        grid = torch.tensor([[1, *GRID]])
        config = self.visual.config
        self.indices, self.weights = library.get_vision_interpolation_indices_and_weights(
            grid,
            num_grid_per_side=self.visual.num_grid_per_side,
            mode=self.visual.interpolation_mode,
            align_corners=self.visual.interpolation_align_corners,
            spatial_merge_size=config.spatial_merge_size,
            kwargs={},
        )
        positions = library.get_vision_position_ids(grid, config.spatial_merge_size, kwargs={})
        cos, sin = self.visual.rotary_pos_emb(torch.zeros(1), positions)
        self.cos, self.sin = cos, sin

    def __call__(self, pictures: Any) -> tuple[Any, Any]:
        """Return what the language model is given: (n, 70, 256) and, for its first layer, as many again.

        pictures: (n, 224, 320, 3) uint8.
        """
        import torch
        from torch.nn import functional

        visual = self.visual
        weight = visual.patch_embed.proj.weight
        dtype = weight.dtype
        count = len(pictures)
        x = functional.linear(
            patches(pictures).to(dtype), weight.sum(dim=2).flatten(1), visual.patch_embed.proj.bias
        )
        places = (visual.pos_embed(self.indices) * self.weights[:, :, None].to(dtype)).sum(1)
        x = x + places
        cos, sin = self.cos.to(dtype), self.sin.to(dtype)
        deeper = None
        for number, block in enumerate(visual.blocks):
            attention = block.attn
            qkv = attention.qkv(block.norm1(x))
            q, k, v = qkv.view(count, -1, 3, attention.num_heads, attention.head_dim).permute(
                2, 0, 3, 1, 4
            )
            q, k = q * cos + _half(q) * sin, k * cos + _half(k) * sin
            # on a processor faster than the fused form, whose way back is slow
            mixed = (q * attention.scaling @ k.transpose(-1, -2)).softmax(-1) @ v
            x = x + attention.proj(mixed.transpose(1, 2).reshape(count, -1, WIDTH))
            x = x + block.mlp(block.norm2(x))
            if number in visual.deepstack_visual_indexes:
                deeper = visual.deepstack_merger_list[0](x.reshape(-1, WIDTH))
        merged = visual.merger(x.reshape(-1, WIDTH))
        assert isinstance(deeper, torch.Tensor)
        return merged.view(count, TOKENS, WIDTH), deeper.view(count, TOKENS, WIDTH)


def patches(pictures: Any) -> Any:
    """Return the patches of pictures, (n, 280, 768) float32 in -1 … 1, those of a token in a row.

    pictures: (n, 224, 320, 3) uint8. A patch is colour by colour, row by row.
    """
    count = len(pictures)
    rows, columns = GRID[0] // MERGED, GRID[1] // MERGED
    cut = pictures.view(count, rows, MERGED, 16, columns, MERGED, 16, 3)
    order = cut.permute(0, 1, 4, 2, 5, 7, 3, 6)
    return order.reshape(count, GRID[0] * GRID[1], 768).float() / 127.5 - 1


def _half(x: Any) -> Any:
    import torch

    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)
