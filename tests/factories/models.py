"""Real classes of several families with small random weights, built offline, for tests of what runs a model.

`initializer_range` is 0.2 and the embeddings are untied: with the published values a model of this
size repeats one token whatever it is shown.
"""

from __future__ import annotations

import atexit
import gc
import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from render_agent.engines.transformers.model.torchvision_compat import cure_torchvision
from render_agent.models import bundled_model as bundled_folder

CHAT_TEMPLATE = """\
{%- for message in messages -%}
    {{- '<|im_start|>' + message.role + '\\n' -}}
    {%- if message.content is string -%}
        {{- message.content -}}
    {%- else -%}
        {%- for piece in message.content -%}
            {%- if piece.type == 'image' -%}
                {{- '<|vision_start|><|image_pad|><|vision_end|>' -}}
            {%- elif piece.type == 'text' -%}
                {{- piece.text -}}
            {%- endif -%}
        {%- endfor -%}
    {%- endif -%}
    {{- '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- '<|im_start|>assistant\\n' -}}
{%- endif -%}
"""
"""Gives the same text as the published template of Qwen3-VL-Instruct, without tools and videos."""

SPECIAL_TOKENS = (
    "<|endoftext|> <|im_start|> <|im_end|> <|object_ref_start|> <|object_ref_end|> <|box_start|>"
    " <|box_end|> <|quad_start|> <|quad_end|> <|vision_start|> <|vision_end|> <|vision_pad|>"
    " <|image_pad|> <|video_pad|>"
).split()

MERGES = (
    "t h|th e|i n|a n|e r|r e|o n|a t|e n|o r|i s|i t|a r|e s|o u|in g|Ġ the|Ġ a|Ġ t|Ġ i|Ġ o|Ġ w"
    "|Ġ s|Ġ c|Ġ is|Ġ in|an d|Ġ and|Ġ m|v i|vi e|vie w|d o|do n|don e|an s|ans w|answ er|t r|tr u"
    "|tru e|f a|l s|fa ls|fals e"
).split("|")
"""Joined pairs of byte-level symbols, earlier ones first."""


TEXT = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 32768,
    "initializer_range": 0.2,
    "tie_word_embeddings": False,
}
"""A language model of some 0.2 million weights."""

VISION = {"hidden_size": 32, "intermediate_size": 64, "initializer_range": 0.2}
"""A vision tower as narrow."""

NORM = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}


AS_THEY_ARE = {"shortest_edge": 32 * 32, "longest_edge": 4096 * 4096}
"""Areas in pixels between which pictures are left as small as they are."""

BUNDLED_SIZE = {"shortest_edge": 256 * 224, "longest_edge": 81919}
"""Those of the bundled model: whatever is four by three becomes 320 × 224."""


def small_qwen3_vl(
    directory: Path,
    seed: int = 0,
    tokenizer: Any = None,
    size: Mapping[str, int] = AS_THEY_ARE,
) -> Path:
    """Write a Qwen3-VL of some 0.4 million float32 weights and its processor; return the directory.

    A picture of 32 × 32 pixels is one token. tokenizer: one that has Qwen's special tokens; by default a
    byte-level one of about 320 tokens. size: areas in pixels that pictures are scaled between.
    """
    cure_torchvision()
    from transformers import (
        Qwen2VLImageProcessor,
        Qwen3VLForConditionalGeneration,
        Qwen3VLProcessor,
        Qwen3VLVideoProcessor,
    )

    tokenizer = tokenizer or small_tokenizer()
    sizes = {"patch_size": 16, "temporal_patch_size": 2, "merge_size": 2}
    processor = Qwen3VLProcessor(
        Qwen2VLImageProcessor(size=dict(size), **sizes, **NORM),
        tokenizer,
        Qwen3VLVideoProcessor(**sizes, **NORM),
        chat_template=CHAT_TEMPLATE,
    )
    return _saved(directory, processor, Qwen3VLForConditionalGeneration, small_config, seed)


def small_config(tokenizer: Any) -> Any:
    """Return the configuration of the small model for a tokenizer with Qwen's special tokens."""
    from transformers import Qwen3VLConfig

    token = tokenizer.convert_tokens_to_ids
    return Qwen3VLConfig(
        text_config={
            **TEXT,
            "vocab_size": len(tokenizer),
            "head_dim": 32,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 5e6,
                "mrope_section": [8, 4, 4],
                "mrope_interleaved": True,
            },
            "bos_token_id": token("<|endoftext|>"),
            "eos_token_id": token("<|im_end|>"),
        },
        vision_config={
            **VISION,
            "depth": 3,
            "num_heads": 2,
            "patch_size": 16,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "num_position_embeddings": 256,
            "out_hidden_size": 64,
            "deepstack_visual_indexes": [0, 1, 2],
        },
        image_token_id=token("<|image_pad|>"),
        video_token_id=token("<|video_pad|>"),
        vision_start_token_id=token("<|vision_start|>"),
        vision_end_token_id=token("<|vision_end|>"),
        tie_word_embeddings=False,
    )


def small_qwen2_5_vl(directory: Path, seed: int = 0) -> Path:
    """Write a Qwen2.5-VL, where a picture of 28 × 28 pixels is one token; return the directory."""
    cure_torchvision()
    from transformers import (
        Qwen2_5_VLConfig,
        Qwen2_5_VLForConditionalGeneration,
        Qwen2_5_VLProcessor,
        Qwen2VLImageProcessor,
        Qwen2VLVideoProcessor,
    )

    sizes = {"patch_size": 14, "temporal_patch_size": 2, "merge_size": 2}
    processor = Qwen2_5_VLProcessor(
        Qwen2VLImageProcessor(
            size={"shortest_edge": 28 * 28, "longest_edge": 4096 * 4096}, **sizes, **NORM
        ),
        small_tokenizer(),
        Qwen2VLVideoProcessor(**sizes, **NORM),
        chat_template=CHAT_TEMPLATE,
    )

    def config(tokenizer: Any) -> Any:
        token = tokenizer.convert_tokens_to_ids
        return Qwen2_5_VLConfig(
            text_config={
                **TEXT,
                "vocab_size": len(tokenizer),
                "rope_parameters": {
                    "rope_type": "default",
                    "rope_theta": 1e6,
                    "mrope_section": [4, 2, 2],
                },
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

    return _saved(directory, processor, Qwen2_5_VLForConditionalGeneration, config, seed)


def small_internvl(directory: Path, seed: int = 0) -> Path:
    """Write an InternVL3.5 in the form of transformers (…-HF); return the directory.

    A tile has 56 × 56 pixels and is four tokens. Its processor cuts a picture into twelve tiles at
    the most, as the published one does.
    """
    cure_torchvision()
    from transformers import (
        GotOcr2ImageProcessor,
        InternVLConfig,
        InternVLForConditionalGeneration,
        InternVLProcessor,
        InternVLVideoProcessor,
    )

    tokens = {
        "start_image_token": "<img>",
        "end_image_token": "</img>",
        "context_image_token": "<IMG_CONTEXT>",
        "video_token": "<video>",
    }
    size = {"height": 56, "width": 56}
    processor = InternVLProcessor(
        GotOcr2ImageProcessor(size=size, crop_to_patches=True, max_patches=12, **NORM),
        small_tokenizer(extra_special_tokens=tokens),
        InternVLVideoProcessor(size=size, **NORM),
        image_seq_length=4,
        chat_template=_template("<IMG_CONTEXT>\\n"),
    )

    def config(tokenizer: Any) -> Any:
        return InternVLConfig(
            text_config={
                "model_type": "qwen3",
                **TEXT,
                "head_dim": 32,
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

    return _saved(directory, processor, InternVLForConditionalGeneration, config, seed)


def small_llava_onevision(directory: Path, seed: int = 0) -> Path:
    """Write a LLaVA-OneVision, whose pictures only its processor knows; return the directory.

    Pictures are cut into tiles of 28 × 28 pixels only where a dialogue shows a single one.
    """
    cure_torchvision()
    from transformers import (
        LlavaOnevisionConfig,
        LlavaOnevisionForConditionalGeneration,
        LlavaOnevisionImageProcessor,
        LlavaOnevisionProcessor,
        LlavaOnevisionVideoProcessor,
    )

    size = {"height": 28, "width": 28}
    grids = [[28, 28], [28, 56], [56, 28], [56, 56]]
    processor = LlavaOnevisionProcessor(
        LlavaOnevisionImageProcessor(size=size, image_grid_pinpoints=grids, **NORM),
        small_tokenizer(extra_special_tokens={"image_token": "<image>", "video_token": "<video>"}),
        LlavaOnevisionVideoProcessor(size=size, **NORM),
        num_image_tokens=4,
        vision_feature_select_strategy="full",
        chat_template=_template("<image>"),
    )

    def config(tokenizer: Any) -> Any:
        token = tokenizer.convert_tokens_to_ids
        return LlavaOnevisionConfig(
            text_config={
                "model_type": "qwen2",
                **TEXT,
                "vocab_size": len(tokenizer),
                "eos_token_id": token("<|im_end|>"),
            },
            vision_config={
                "model_type": "siglip_vision_model",
                **VISION,
                "num_hidden_layers": 3,
                "num_attention_heads": 2,
                "image_size": 28,
                "patch_size": 14,
                "vision_use_head": False,
            },
            image_token_index=token("<image>"),
            video_token_index=token("<video>"),
            image_grid_pinpoints=grids,
            tie_word_embeddings=False,
        )

    return _saved(directory, processor, LlavaOnevisionForConditionalGeneration, config, seed)


def small_gemma3(directory: Path, seed: int = 0) -> Path:
    """Write a Gemma 3, whose layers but one see 16 tokens back at the most; return the directory.

    A picture is scaled to 56 × 56 pixels and is four tokens.
    """
    cure_torchvision()
    from transformers import (
        Gemma3Config,
        Gemma3ForConditionalGeneration,
        Gemma3ImageProcessor,
        Gemma3Processor,
    )

    tokens = {
        "boi_token": "<start_of_image>",
        "eoi_token": "<end_of_image>",
        "image_token": "<image_soft_token>",
    }
    processor = Gemma3Processor(
        Gemma3ImageProcessor(size={"height": 56, "width": 56}, **NORM),
        small_tokenizer(extra_special_tokens=tokens),
        chat_template=_template("<start_of_image>"),
        image_seq_length=4,
    )

    def config(tokenizer: Any) -> Any:
        token = tokenizer.convert_tokens_to_ids
        return Gemma3Config(
            text_config={
                **TEXT,
                "vocab_size": len(tokenizer),
                "head_dim": 32,
                "query_pre_attn_scalar": 32,
                "sliding_window": 16,
                "layer_types": ["sliding_attention"] * 3 + ["full_attention"],
                "pad_token_id": token("<|endoftext|>"),
                "eos_token_id": token("<|im_end|>"),
            },
            vision_config={
                **VISION,
                "num_hidden_layers": 3,
                "num_attention_heads": 2,
                "image_size": 56,
                "patch_size": 14,
                "vision_use_head": False,
            },
            mm_tokens_per_image=4,
            boi_token_index=token("<start_of_image>"),
            eoi_token_index=token("<end_of_image>"),
            image_token_index=token("<image_soft_token>"),
            initializer_range=0.2,
            tie_word_embeddings=False,
        )

    return _saved(directory, processor, Gemma3ForConditionalGeneration, config, seed)


def _template(placeholder: str) -> str:
    """Return the chat template with another placeholder of a picture."""
    return CHAT_TEMPLATE.replace("<|vision_start|><|image_pad|><|vision_end|>", placeholder)


def _saved(
    directory: Path, processor: Any, kind: Any, config: Callable[[Any], Any], seed: int
) -> Path:
    """Write a processor and a model of random weights for its tokenizer; return the directory."""
    import torch

    tokenizer = processor.tokenizer
    processor.save_pretrained(directory)
    generator_state = torch.get_rng_state()
    torch.manual_seed(seed)
    model = kind(config(tokenizer)).eval()
    # Gemma 3's projection begins at zero: no picture would change anything.
    for weight in model.parameters():
        if weight.dim() > 1 and not weight.any():
            torch.nn.init.normal_(weight, std=0.2)
    torch.set_rng_state(generator_state)
    ends = [tokenizer.convert_tokens_to_ids(word) for word in ("<|im_end|>", "<|endoftext|>")]
    published = {"do_sample": True, "temperature": 0.7, "top_p": 0.8, "top_k": 20}
    model.generation_config.update(eos_token_id=ends, pad_token_id=ends[1], **published)
    model.save_pretrained(directory)
    return directory


def small_tokenizer(**more: Any) -> Any:
    """Return a byte-level BPE tokenizer of about 320 tokens with Qwen's special ones, and more."""
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import Qwen2Tokenizer

    symbols = sorted(ByteLevel.alphabet()) + [merge.replace(" ", "") for merge in MERGES]
    tokenizer = Qwen2Tokenizer(
        vocab={symbol: number for number, symbol in enumerate(symbols)},
        merges=[tuple(merge.split(" ")) for merge in MERGES],
        eos_token="<|im_end|>",
        **more,
    )
    tokenizer.add_special_tokens({"additional_special_tokens": SPECIAL_TOKENS})
    return tokenizer


def published_tokenizer(directory: Path) -> Any:
    """Return the tokenizer of Qwen3-VL as published, without the text-only template beside it."""
    from transformers import Qwen2Tokenizer

    tokenizer = Qwen2Tokenizer.from_pretrained(directory, local_files_only=True)
    tokenizer.chat_template = None
    return tokenizer


def rewrite_json(file: Path, **changes: Any) -> None:
    """Change entries of a JSON file; None removes one."""
    entries = json.loads(file.read_text("utf-8")) | changes
    kept = {name: value for name, value in entries.items() if value is not None}
    file.write_text(json.dumps(kept), "utf-8")


@cache
def small_model(build: Callable[[Path], Path] = small_qwen3_vl) -> Path:
    """Return the directory of a small model that is built once and goes when the tests end.

    torch is held to one thread: so small a model gains nothing from more, and on a busy machine they
    wait for each other. What is there by now is left out of collections: memory that is given back
    again and again costs a collection each time, and the libraries' million objects stay anyway.
    """
    import torch

    torch.set_num_threads(1)
    directory = Path(tempfile.mkdtemp(prefix="small-model-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    build(directory)
    gc.collect()
    gc.freeze()
    return directory


BUNDLED = bundled_folder("small")
"""The folder of the model that comes with the program."""

TRAINED = BUNDLED is not None and (BUNDLED / "model.safetensors").is_file()
"""Whether it is there; tests of what it has learned have nothing to test before."""


def stand_in(directory: Path) -> Path:
    """Write what stands in for the bundled model where there is none: random weights in half precision."""
    folder = small_qwen3_vl(directory / "small", size=BUNDLED_SIZE)
    import torch
    from transformers import Qwen3VLForConditionalGeneration

    kind = Qwen3VLForConditionalGeneration
    kind.from_pretrained(folder, dtype=torch.float16).save_pretrained(folder)
    return folder


def bundled_model() -> Path:
    """Return the directory of the bundled model, named `small`, or of its stand-in."""
    if TRAINED and BUNDLED is not None:
        import torch

        torch.set_num_threads(1)
        return BUNDLED
    return small_model(stand_in) / "small"


def speckled(width: int, height: int, seed: int = 0) -> Image.Image:
    """Return a picture of random pixels, so that any two differ everywhere."""
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def speckled_file(file: str) -> Image.Image:
    """Return the picture that a file name such as "64x96-7.png" asks for: width, height, seed."""
    size, _, seed = file.removesuffix(".png").partition("-")
    width, _, height = size.partition("x")
    return speckled(int(width), int(height), int(seed))
