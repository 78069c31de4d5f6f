"""Architecture of the small model: a Qwen3-VL with 10.6 million weights, using the original classes."""

from __future__ import annotations

from typing import Any

from render_agent.engines.checkpoint.torchvision_compat import patch_torchvision

GRID = (14, 20)  # patches of an image, down and across (224 x 320 pixels, 16 x 16 each)

MERGED = 2  # patches per token, down and across

ROWS_OF_TOKENS, COLUMNS_OF_TOKENS = GRID[0] // MERGED, GRID[1] // MERGED
TOKENS = ROWS_OF_TOKENS * COLUMNS_OF_TOKENS  # tokens per image

WIDTH = 256  # hidden size of both the vision tower and the language model


def model_config(tokenizer: Any) -> Any:
    """Return the configuration of the small model for a tokenizer with Qwen's special tokens."""
    from transformers import Qwen3VLConfig

    token = tokenizer.convert_tokens_to_ids
    return Qwen3VLConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": WIDTH,
            "intermediate_size": 640,
            "num_hidden_layers": 5,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 64,
            "max_position_embeddings": 8192,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 5e6,
                "mrope_section": [16, 8, 8],
                "mrope_interleaved": True,
            },
            "bos_token_id": token("<|endoftext|>"),
            "eos_token_id": token("<|im_end|>"),
            "pad_token_id": token("<|endoftext|>"),
            "tie_word_embeddings": True,
        },
        vision_config={
            "hidden_size": WIDTH,
            "intermediate_size": 640,
            "depth": 6,
            "num_heads": 4,
            "patch_size": 16,
            "spatial_merge_size": MERGED,
            "temporal_patch_size": 2,
            "num_position_embeddings": 256,
            "out_hidden_size": WIDTH,
            "deepstack_visual_indexes": [3],
        },
        image_token_id=token("<|image_pad|>"),
        video_token_id=token("<|video_pad|>"),
        vision_start_token_id=token("<|vision_start|>"),
        vision_end_token_id=token("<|vision_end|>"),
        tie_word_embeddings=True,
    )


def new_model(tokenizer: Any, seed: int) -> Any:
    """Return the model with random float32 weights."""
    patch_torchvision()
    import torch
    from transformers import Qwen3VLForConditionalGeneration

    torch.manual_seed(seed)
    return Qwen3VLForConditionalGeneration(model_config(tokenizer))
