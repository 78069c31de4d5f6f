"""Which families of models answer here as they should: a small one of each, with random weights, is tried."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from render_agent.errors import RenderAgentError

NEW_TOKENS = 8
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


def probe_families(device: str = "auto") -> dict[str, Any]:
    """Return for every family why it does not answer as it should, and how long that took to see.

    `batch`: whether two requests answered together get what each gets alone. `reuse`: whether what
    is kept over the turns changes nothing. Each is None where it holds, else a sentence. In float32.
    """
    results = {}
    for name, make in FAMILIES.items():
        began = time.perf_counter()
        results[name] = {**_tried(make, device), "seconds": time.perf_counter() - began}
    return {"families": results}


def probe_model(name: str, device: str, dtype: str) -> dict[str, Any]:
    """Return the same of a model by name, its own weights loaded. SetupError where they cannot be."""
    from render_agent.engines.transformers.model.load import open_model

    began = time.perf_counter()
    loaded = open_model(name, device=device, dtype=dtype)
    return {**_probed(loaded), "seconds": time.perf_counter() - began}


def _tried(make: Callable[[str], Any], device: str) -> Mapping[str, str | None]:
    """Return what was found of one family; whatever its classes raise is what is to be found."""
    from render_agent.engines.transformers.model.load import open_model

    try:
        return _probed(open_model("a small one", pretrained=make(device)))
    except RenderAgentError as error:
        return {"batch": str(error), "reuse": None}
    except Exception as error:  # noqa: BLE001 - a library that lacks a class, or fails in it
        return {"batch": f"{type(error).__name__}: {error}", "reuse": None}


def _probed(loaded: Any) -> dict[str, str | None]:
    from render_agent.engines.transformers.cache_check import why_not_kept

    return {"batch": _why_batch_differs(loaded), "reuse": why_not_kept(loaded)}


def _why_batch_differs(loaded: Any) -> str | None:
    """Return in one sentence how replies of a batch differ from those of its requests alone."""
    from PIL import Image

    from render_agent.dialogue import chat
    from render_agent.engines.base import Request
    from render_agent.engines.transformers.generate_engine import TransformersEngine

    def picture(file: str) -> Image.Image:
        slope = Image.linear_gradient("L").resize((96, 64))
        return Image.merge("RGB", [slope, slope.rotate(180), slope])

    def request(text: str, *files: str) -> Request:
        pieces = [chat.text(text), *(chat.picture(file) for file in files)]
        return Request(text, 0, [chat.message("user", *pieces)], picture, max_new_tokens=NEW_TOKENS)

    requests = [request("What is this?", "a.png"), request("Say something about nothing.")]
    together = TransformersEngine(loaded, batch_size=2).generate(requests)
    alone = TransformersEngine(loaded, batch_size=1).generate(requests)
    for batched, single in zip(together, alone, strict=True):
        if reason := batched.error or single.error:
            return reason
        if batched.samples != single.samples:
            return "a reply differs when others are answered with it"
    return None


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


def _qwen3_vl(device: str) -> Any:
    from render_agent.engines.transformers.model.random_model import random_model

    return random_model("small", device, "float32")


def _qwen2_5_vl(device: str) -> Any:
    from render_agent.engines.transformers.model.random_model import CHAT_TEMPLATE, made_tokenizer
    from render_agent.engines.transformers.model.torchvision_compat import cure_torchvision

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


def _internvl(device: str) -> Any:
    from render_agent.engines.transformers.model.random_model import CHAT_TEMPLATE, made_tokenizer
    from render_agent.engines.transformers.model.torchvision_compat import cure_torchvision

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


FAMILIES: Mapping[str, Callable[[str], Any]] = {
    "Qwen3-VL": _qwen3_vl,
    "Qwen2.5-VL": _qwen2_5_vl,
    "InternVL": _internvl,
}
"""What makes a small model of each family, on a device."""
