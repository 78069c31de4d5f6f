"""A small model of each family that the program knows, with random weights: what `doctor --probe` lets answer."""

from __future__ import annotations

from typing import Any

TEXT = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "initializer_range": 0.2,
    "tie_word_embeddings": False,
}
VISION = {"hidden_size": 32, "intermediate_size": 64, "initializer_range": 0.2}
NORM = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
QWEN_PICTURE = "<|vision_start|><|image_pad|><|vision_end|>"


def _placed(kind: Any, config: Any, processor: Any, device: str) -> Any:
    """Return a model of random weights on a device, with its processor."""
    import torch

    from render_agent.engines.transformers.model.pretrained import Pretrained, choose_device

    torch.manual_seed(0)
    model = kind(config).eval().to(choose_device(device))
    tokens = processor.tokenizer.convert_tokens_to_ids
    ends = [tokens("<|im_end|>"), tokens("<|endoftext|>")]
    model.generation_config.update(eos_token_id=ends, pad_token_id=ends[1], do_sample=False)
    processor.tokenizer.padding_side = "left"
    return Pretrained(processor, model, top_k=0, top_p=1.0)


def qwen3_vl(device: str) -> Any:
    """Return a small Qwen3-VL on a device, with its processor."""
    from render_agent_lab.random_models.random_model import random_model

    return random_model("small", device, "float32")


def qwen2_5_vl(device: str) -> Any:
    """Return a small Qwen2.5-VL on a device, with its processor."""
    from render_agent.engines.transformers.model.torchvision_compat import cure_torchvision
    from render_agent_lab.random_models.random_model import CHAT_TEMPLATE, made_tokenizer

    cure_torchvision()
    import transformers

    sizes = {"patch_size": 14, "temporal_patch_size": 2, "merge_size": 2}
    tokenizer = made_tokenizer()
    token = tokenizer.convert_tokens_to_ids
    processor = transformers.Qwen2_5_VLProcessor(
        transformers.Qwen2VLImageProcessor(
            size={"shortest_edge": 28 * 28, "longest_edge": 4096 * 4096}, **sizes, **NORM
        ),
        tokenizer,
        transformers.Qwen2VLVideoProcessor(**sizes, **NORM),
        chat_template=CHAT_TEMPLATE,
    )
    rope = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [4, 2, 2]}
    text = {name: value for name, value in TEXT.items() if name != "head_dim"}
    config = transformers.Qwen2_5_VLConfig(
        text_config={
            **text,
            "vocab_size": len(tokenizer),
            "rope_parameters": rope,
            "bos_token_id": token("<|endoftext|>"),
            "eos_token_id": token("<|im_end|>"),
        },
        vision_config={
            **VISION,
            "depth": 3,
            "num_heads": 2,
            "patch_size": 14,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "window_size": 56,
            "fullatt_block_indexes": [1],
            "out_hidden_size": 64,
        },
        image_token_id=token("<|image_pad|>"),
        video_token_id=token("<|video_pad|>"),
        vision_start_token_id=token("<|vision_start|>"),
        vision_end_token_id=token("<|vision_end|>"),
        tie_word_embeddings=False,
    )
    return _placed(transformers.Qwen2_5_VLForConditionalGeneration, config, processor, device)


def internvl(device: str) -> Any:
    """Return a small InternVL on a device, with its processor."""
    from render_agent.engines.transformers.model.torchvision_compat import cure_torchvision
    from render_agent_lab.random_models.random_model import CHAT_TEMPLATE, made_tokenizer

    cure_torchvision()
    import transformers

    size = {"height": 56, "width": 56}
    tokenizer = made_tokenizer(
        start_image_token="<img>",
        end_image_token="</img>",
        context_image_token="<IMG_CONTEXT>",
        video_token="<video>",
    )
    processor = transformers.InternVLProcessor(
        transformers.GotOcr2ImageProcessor(size=size, crop_to_patches=True, max_patches=12, **NORM),
        tokenizer,
        transformers.InternVLVideoProcessor(size=size, **NORM),
        image_seq_length=4,
        chat_template=CHAT_TEMPLATE.replace(QWEN_PICTURE, "<IMG_CONTEXT>\\n"),
    )
    config = transformers.InternVLConfig(
        text_config={
            "model_type": "qwen3",
            **TEXT,
            "vocab_size": len(tokenizer),
            "eos_token_id": tokenizer.convert_tokens_to_ids("<|im_end|>"),
        },
        vision_config={
            **VISION,
            "num_hidden_layers": 3,
            "num_attention_heads": 2,
            "image_size": [56, 56],
            "patch_size": [14, 14],
        },
        image_token_id=tokenizer.context_image_token_id,
        image_seq_length=4,
        tie_word_embeddings=False,
    )
    return _placed(transformers.InternVLForConditionalGeneration, config, processor, device)
