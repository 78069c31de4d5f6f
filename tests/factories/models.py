"""Small random models on disk with a tokenizer, for tests of engines."""

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

from factories.families import SMALL_FAMILIES, small_family
from render_agent.engines.bundled_models import bundled_model as bundled_folder
from render_agent.engines.checkpoint.pretrained import Pretrained
from render_agent_lab.random_models.published_shapes import SHAPES, SMALL
from render_agent_lab.random_models.random_model import CHAT_TEMPLATE, make_config, save_model

__all__ = ["CHAT_TEMPLATE"]

SPECIAL_TOKENS = (
    "<|endoftext|> <|im_start|> <|im_end|> <|object_ref_start|> <|object_ref_end|> <|box_start|>"
    " <|box_end|> <|quad_start|> <|quad_end|> <|vision_start|> <|vision_end|> <|vision_pad|>"
    " <|image_pad|> <|video_pad|>"
).split()

# BPE merges of byte-level symbols, by priority.
MERGES = (
    "t h|th e|i n|a n|e r|r e|o n|a t|e n|o r|i s|i t|a r|e s|o u|in g|Ġ the|Ġ a|Ġ t|Ġ i|Ġ o|Ġ w"
    "|Ġ s|Ġ c|Ġ is|Ġ in|an d|Ġ and|Ġ m|v i|vi e|vie w|d o|do n|don e|an s|ans w|answ er|t r|tr u"
    "|tru e|f a|l s|fa ls|fals e"
).split("|")


# Image areas in pixels within which images keep their size.
NO_RESIZING = {"shortest_edge": 32 * 32, "longest_edge": 4096 * 4096}

# Limits of the bundled model: 4:3 images become 320 × 224.
BUNDLED_SIZE = {"shortest_edge": 256 * 224, "longest_edge": 81919}


def small_qwen3_vl(
    directory: Path,
    seed: int = 0,
    tokenizer: Any = None,
    # smallest and largest image area in pixels; others are resized
    size: Mapping[str, int] = NO_RESIZING,
) -> Path:
    """Write a Qwen3-VL of about 0.4 million float32 weights with its processor; return the directory.

    An image of 32 × 32 pixels is one token.
    """
    made = small_family("qwen3_vl", seed=seed, tokenizer=tokenizer or small_tokenizer())
    made.processor.image_processor.size = dict(size)
    return _save(directory, made)


def small_config(tokenizer: Any) -> Any:
    """Return the small model's configuration for a tokenizer with Qwen's special tokens."""
    return make_config(SHAPES[SMALL], tokenizer)


def _writer(name: str) -> Callable[..., Path]:
    """Return a function that writes a small model of a family with a tokenizer of about 320 tokens."""

    def write(directory: Path, seed: int = 0) -> Path:
        special = dict(SMALL_FAMILIES[name].get("special", {}))
        tokenizer = small_tokenizer(extra_special_tokens=special) if special else small_tokenizer()
        return _save(directory, small_family(name, seed=seed, tokenizer=tokenizer))

    return write


small_qwen2_5_vl = _writer("qwen2_5_vl")
small_internvl = _writer("internvl")
small_llava_onevision = _writer("llava_onevision")
small_gemma3 = _writer("gemma3")
small_qwen3_5 = _writer("qwen3_5")


def _save(directory: Path, made: Pretrained) -> Path:
    """Write a processor and a model with published sampling defaults; return the directory."""
    published = {"do_sample": True, "temperature": 0.7, "top_p": 0.8, "top_k": 20}
    made.model.generation_config.update(**published)
    return save_model(made, directory)


def small_tokenizer(**more: Any) -> Any:
    """Return a byte-level BPE tokenizer of about 320 tokens, including Qwen's special tokens."""
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
    """Return the published Qwen3-VL tokenizer without its text-only chat template."""
    from transformers import Qwen2Tokenizer

    tokenizer = Qwen2Tokenizer.from_pretrained(directory, local_files_only=True)
    tokenizer.chat_template = None
    return tokenizer


def rewrite_json(file: Path, **changes: Any) -> None:
    """Update entries of a JSON file; None removes an entry."""
    entries = json.loads(file.read_text("utf-8")) | changes
    kept = {name: value for name, value in entries.items() if value is not None}
    file.write_text(json.dumps(kept), "utf-8")


@cache
def small_model(build: Callable[[Path], Path] = small_qwen3_vl) -> Path:
    """Return the directory of a small model, built once and deleted at the end of the session.

    Limits torch to one thread, since small models gain nothing from more, and freezes existing objects,
    since engines that release memory trigger many garbage collections.
    """
    import torch

    torch.set_num_threads(1)
    directory = Path(tempfile.mkdtemp(prefix="small-model-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    build(directory)
    gc.collect()
    gc.freeze()
    return directory


# ChatML with tools, in the syntax of Hermes and Qwen.
TOOLS_TEMPLATE = """
{%- macro parts(content) -%}
{%- if content is string -%}{{ content }}{%- else -%}
{%- for part in content -%}
{%- if part.type == 'image' -%}<|vision_start|><|image_pad|><|vision_end|>
{%- else -%}{{ part.text }}{%- endif -%}
{%- endfor -%}{%- endif -%}
{%- endmacro -%}
{%- for message in messages -%}
<|im_start|>{{ 'user' if message.role == 'tool' else message.role }}
{{ '<tool_response>' if message.role == 'tool' }}{{ parts(message.content) }}
{%- if loop.first and tools %}

Tools:
{%- for tool in tools %}
{{ tool | tojson }}
{%- endfor %}
{%- endif %}
{%- for call in message.tool_calls or [] %}
<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>
{%- endfor -%}
{{ '</tool_response>' if message.role == 'tool' }}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}<|im_start|>assistant
{% endif -%}
"""


def add_tools_template(folder: Path, model: Path) -> Path:
    """Copy a model to a new folder, with a chat template that supports tools; return the folder."""
    shutil.copytree(model, folder)
    (folder / "chat_template.jinja").write_text(TOOLS_TEMPLATE)
    return folder


# Folder of the bundled model.
BUNDLED = bundled_folder("small")

# True if the bundled model's weights exist; tests of its accuracy are skipped otherwise.
TRAINED = BUNDLED is not None and (BUNDLED / "model.safetensors").is_file()


def random_bundled_model(directory: Path) -> Path:
    """Write a replacement for a missing bundled model: random weights in half precision."""
    folder = small_qwen3_vl(directory / "small", size=BUNDLED_SIZE)
    import torch
    from transformers import Qwen3VLForConditionalGeneration

    kind = Qwen3VLForConditionalGeneration
    kind.from_pretrained(folder, dtype=torch.float16).save_pretrained(folder)
    return folder


def bundled_model() -> Path:
    """Return the directory of the bundled model `small`, or of its random replacement."""
    if TRAINED and BUNDLED is not None:
        import torch

        torch.set_num_threads(1)
        return BUNDLED
    return small_model(random_bundled_model) / "small"


def random_image(width: int, height: int, seed: int = 0) -> Image.Image:
    """Return an image of random pixels."""
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def load_random_image(file: str) -> Image.Image:
    """Return the random image for a file name such as "64x96-7.png": width, height, seed."""
    size, _, seed = file.removesuffix(".png").partition("-")
    width, _, height = size.partition("x")
    return random_image(int(width), int(height), int(seed))
