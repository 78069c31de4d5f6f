"""Builds models with random weights in published or small shapes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from render_agent.dialogue.prompt import Prompt
from render_agent.engines.checkpoint.pretrained import (
    DTYPES,
    OFFLINE,
    Pretrained,
    choose_device,
    silence_libraries,
)
from render_agent.errors import SetupError
from render_agent.util.safe_parse import parse_json
from render_agent_lab.random_models.published_shapes import ModelShape, find_shape

# English text that the small tokenizer is trained on.
FILLER = (
    "I see a chair beside the table and a shelf behind it, so the door must be to the left of where"
    " I stand; the window is on the other side of the room and I have not seen the far corner yet. "
)

# ChatML with images, as in Qwen3-VL.
CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{{- '<|im_start|>' + message.role + '\\n' -}}"
    "{%- if message.content is string -%}{{- message.content -}}{%- else -%}"
    "{%- for piece in message.content -%}"
    "{%- if piece.type == 'image' -%}{{- '<|vision_start|><|image_pad|><|vision_end|>' -}}"
    "{%- elif piece.type == 'text' -%}{{- piece.text -}}{%- endif -%}"
    "{%- endfor -%}{%- endif -%}"
    "{{- '<|im_end|>\\n' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"
)

SPECIAL_TOKENS = (
    "<|endoftext|> <|im_start|> <|im_end|> <|vision_start|> <|vision_end|> <|image_pad|> <|video_pad|>"
).split()

VOCABULARY = 1500  # tokens of the generated tokenizer; most words of a dialogue are one token


def random_model(
    name: str,
    device: str = "auto",
    dtype: str = "auto",
    attention: str | None = None,
    seed: int = 0,
) -> Pretrained:
    """Build a model with random weights directly on its device. `name` is in SHAPES, or a folder of a published model's
    config.
    """
    import torch

    from render_agent.engines.checkpoint.torchvision_compat import patch_torchvision

    place = choose_device(device)
    patch_torchvision()
    silence_libraries()
    from transformers import AutoModelForImageTextToText

    if dtype not in DTYPES:
        raise SetupError(f"unknown --dtype {dtype}. Use one of {', '.join(DTYPES)}.")
    kind = ("float32" if place == "cpu" else "bfloat16") if dtype == "auto" else dtype
    folder = Path(name).expanduser()
    if folder.is_dir():
        config, processor = _load_published(folder)
        tokenizer = processor.tokenizer
    else:
        tokenizer = build_tokenizer()
        config = make_config(find_shape(name), tokenizer)
        processor = _processor(tokenizer, _pixel_limits(find_shape(name)))
    state = torch.get_rng_state()
    torch.manual_seed(seed)
    with torch.device(place):
        model = AutoModelForImageTextToText.from_config(
            config, dtype=getattr(torch, kind), attn_implementation=attention
        ).eval()
    torch.set_rng_state(state)
    ends = tokenizer.convert_tokens_to_ids(["<|im_end|>", "<|endoftext|>"])
    if None in ends:
        ends = [tokenizer.eos_token_id] * 2
    model.generation_config.update(eos_token_id=ends, pad_token_id=ends[1], do_sample=False)
    return Pretrained(processor, model, top_k=0, top_p=1.0)


def make_config(shape: ModelShape, tokenizer: Any) -> Any:
    """Return the Qwen3-VL configuration of a shape and a tokenizer."""
    from transformers import Qwen3VLConfig

    token = tokenizer.convert_tokens_to_ids
    rope = {
        "rope_type": "default",
        "rope_theta": 5e6,
        "mrope_section": list(shape.mrope_section),
        "mrope_interleaved": True,
    }
    text = {
        "vocab_size": len(tokenizer),
        **shape.text,
        "rope_parameters": rope,
        "initializer_range": shape.initializer_range,
        "tie_word_embeddings": shape.tied,
        "bos_token_id": token("<|endoftext|>"),
        "eos_token_id": token("<|im_end|>"),
    }
    patches = {"patch_size": 16, "spatial_merge_size": 2, "temporal_patch_size": 2}
    vision = {**shape.vision, **patches, "initializer_range": shape.initializer_range}
    return Qwen3VLConfig(
        text_config=text,
        vision_config=vision,
        tie_word_embeddings=shape.tied,
        image_token_id=token("<|image_pad|>"),
        video_token_id=token("<|video_pad|>"),
        vision_start_token_id=token("<|vision_start|>"),
        vision_end_token_id=token("<|vision_end|>"),
    )


def build_tokenizer(**named: str) -> Any:
    """Build a byte-level tokenizer with Qwen's special tokens and merges trained on our prompt. Deterministic.

    The vocabulary is small, but token counts of a dialogue are close to those of a published tokenizer.
    """
    from tokenizers import Tokenizer
    from tokenizers.models import BPE
    from tokenizers.pre_tokenizers import ByteLevel
    from tokenizers.trainers import BpeTrainer
    from transformers import Qwen2Tokenizer

    learner = Tokenizer(BPE())
    learner.pre_tokenizer = ByteLevel(add_prefix_space=False)
    trainer = BpeTrainer(
        vocab_size=VOCABULARY, initial_alphabet=ByteLevel.alphabet(), show_progress=False
    )
    learner.train_from_iterator([Prompt(9, 75.0).instructions, FILLER] * 2, trainer)
    vocabulary = parse_json(learner.to_str())["model"]
    tokenizer = Qwen2Tokenizer(
        vocab=vocabulary["vocab"],
        merges=[tuple(merge) for merge in vocabulary["merges"]],
        eos_token="<|im_end|>",
        **({"extra_special_tokens": named} if named else {}),
    )
    tokenizer.add_special_tokens({"additional_special_tokens": SPECIAL_TOKENS})
    return tokenizer


def save_model(pretrained: Pretrained, folder: Path) -> Path:
    """Save a model and its processor in the format of transformers; return the folder."""
    pretrained.processor.save_pretrained(folder)
    pretrained.model.save_pretrained(folder)
    return folder


def _load_published(folder: Path) -> tuple[Any, Any]:
    """Return the configuration and the processor of a published model. Raises SetupError if a file is missing.

    Uses the processor of Qwen3-VL if the folder has only a tokenizer.
    """
    from transformers import AutoConfig, AutoProcessor, Qwen2Tokenizer

    if not (folder / "config.json").is_file() or not (folder / "tokenizer.json").is_file():
        raise SetupError(f"{folder} has no config.json or no tokenizer.json. Name a shape instead.")
    config = AutoConfig.from_pretrained(folder, **OFFLINE)
    if any(folder.glob("*processor_config.json")):
        return config, AutoProcessor.from_pretrained(folder, padding_side="left", **OFFLINE)
    tokenizer = Qwen2Tokenizer.from_pretrained(folder, **OFFLINE)
    tokenizer.chat_template = None
    return config, _processor(tokenizer, (256 * 256, 4096 * 4096))


def _pixel_limits(shape: ModelShape) -> tuple[int, int]:
    return shape.shortest_edge, shape.longest_edge


def _processor(tokenizer: Any, edges: tuple[int, int]) -> Any:
    from transformers import Qwen2VLImageProcessor, Qwen3VLProcessor, Qwen3VLVideoProcessor

    sizes = {"patch_size": 16, "temporal_patch_size": 2, "merge_size": 2}
    norm = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    size = {"shortest_edge": edges[0], "longest_edge": edges[1]}
    images = Qwen2VLImageProcessor(size=size, **sizes, **norm)
    tokenizer.padding_side = "left"
    return Qwen3VLProcessor(
        images, tokenizer, Qwen3VLVideoProcessor(**sizes, **norm), chat_template=CHAT_TEMPLATE
    )
