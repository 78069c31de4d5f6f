"""Small models of random weights as files, with a tokenizer that is quickly made, for tests of what runs a model."""

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
from render_agent_lab.random_models.random_model import CHAT_TEMPLATE, make_config, save

__all__ = ["CHAT_TEMPLATE"]

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
    made = small_family("qwen3_vl", seed=seed, tokenizer=tokenizer or small_tokenizer())
    made.processor.image_processor.size = dict(size)
    return _saved(directory, made)


def small_config(tokenizer: Any) -> Any:
    """Return the configuration of the small model for a tokenizer with Qwen's special tokens."""
    return make_config(SHAPES[SMALL], tokenizer)


def _written(name: str) -> Callable[..., Path]:
    """Return what writes a small model of a family, its tokenizer one of about 320 tokens."""

    def write(directory: Path, seed: int = 0) -> Path:
        named = dict(SMALL_FAMILIES[name].get("special", {}))
        tokenizer = small_tokenizer(extra_special_tokens=named) if named else small_tokenizer()
        return _saved(directory, small_family(name, seed=seed, tokenizer=tokenizer))

    return write


small_qwen2_5_vl = _written("qwen2_5_vl")
small_internvl = _written("internvl")
small_llava_onevision = _written("llava_onevision")
small_gemma3 = _written("gemma3")


def _saved(directory: Path, made: Pretrained) -> Path:
    """Write a processor and a model, and how its publishers would have it drawn from; return the directory."""
    published = {"do_sample": True, "temperature": 0.7, "top_p": 0.8, "top_k": 20}
    made.model.generation_config.update(**published)
    return save(made, directory)


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
