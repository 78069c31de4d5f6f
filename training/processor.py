"""The small model's processor: Qwen3-VL's classes with our tokenizer and chat template."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from render_agent.engines.checkpoint.torchvision_compat import patch_torchvision
from training.tokenizer import small_tokenizer

# Renders the same text as the published template of Qwen3-VL-Instruct, without tools and videos.
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

WIDTH, HEIGHT = 320, 224  # pixels of a 4:3 image as the model sees it

# Minimum and maximum pixels of an image; with a larger maximum, 320 x 240 would become 320 x 256.
PIXELS = {"shortest_edge": 256 * 224, "longest_edge": 81919}

IMAGE_TOKENS = (WIDTH // 32) * (HEIGHT // 32)  # tokens per image

NORM = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}

PATCHES = {"patch_size": 16, "temporal_patch_size": 2, "merge_size": 2}


def small_processor(tokenizer: Any) -> Any:
    """Return the processor, which renders dialogues to prompts and images to `IMAGE_TOKENS` tokens."""
    patch_torchvision()
    from transformers import Qwen2VLImageProcessor, Qwen3VLProcessor, Qwen3VLVideoProcessor

    return Qwen3VLProcessor(
        Qwen2VLImageProcessor(size=dict(PIXELS), **PATCHES, **NORM),
        tokenizer,
        Qwen3VLVideoProcessor(**PATCHES, **NORM),
        chat_template=CHAT_TEMPLATE,
    )


def generation_config(tokenizer: Any) -> Any:
    """Return the generation config: greedy, until the message or the text ends."""
    from transformers import GenerationConfig

    end, pad = tokenizer.eos_token_id, tokenizer.pad_token_id
    return GenerationConfig(
        do_sample=False, bos_token_id=pad, eos_token_id=[end, pad], pad_token_id=pad
    )


def save_processor(directory: Path) -> Any:
    """Write processor, tokenizer and generation config to a folder; return the processor."""
    processor = small_processor(small_tokenizer())
    processor.save_pretrained(directory)
    generation_config(processor.tokenizer).save_pretrained(directory)
    return processor


if __name__ == "__main__":
    save_processor(Path(sys.argv[1]))
