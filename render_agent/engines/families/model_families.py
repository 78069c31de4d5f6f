"""The table of model families with the properties that differ between them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, TypeAlias

from render_agent import registry
from render_agent.engines.families.images import (
    ImagePreprocessor,
    InternVLImages,
    NumberedImages,
    QwenImages,
)
from render_agent.engines.families.thinking import Thinking
from render_agent.errors import SetupError

TwoWay: TypeAlias = Literal["never", "sliding", "always", "beyond"]
"""Layers with bidirectional attention within an image.

- never: none; all attention is causal.
- sliding: layers with a sliding window, within that window.
- always: all layers, within their window if they have one.
- beyond: all layers, ignoring their window.
"""


def _never(text: Any) -> TwoWay:
    return "never"


@dataclass(frozen=True, slots=True)
class Family:
    """Models with the same image preprocessing, position encoding and caching."""

    name: str
    model_types: tuple[str, ...]
    """Values of `model_type` in config.json."""
    images: type[ImagePreprocessor] | None
    """The image preprocessing; None if the processor has to see the whole prompt."""
    reuse: Literal["keys", "recompute"] = "keys"
    """The best exact reuse between turns: the KV cache (and recurrent states), or nothing."""
    axes: Literal[1, 3] = 1
    """Position axes per token: 3 (time, height, width; from `model.model.get_rope_index`) or 1 (the index)."""
    two_way: Callable[[Any], TwoWay] = _never
    """Returns the layers with bidirectional attention within an image, for a text configuration."""
    recurrent: bool = False
    """True if some layers have a recurrent state instead of keys and values."""
    alone: bool = False
    """True if padding changes the results, so that a call of the model takes one prompt."""
    image_axis: int = 0
    """Axis along which the tensors of several images are concatenated."""
    thinking: Thinking = field(default_factory=Thinking)
    published: str | None = None
    """Regular expression for names of published models, for servers that report only a name."""
    why: str = ""
    """Why `reuse` is not `keys`, as a clause."""

    @property
    def options(self) -> tuple[str, ...]:
        """Names of the family's engine options."""
        return () if self.images is None else self.images.options

    def image_tokens(
        self,
        width: int,  # width in pixels
        height: int,  # height in pixels
        processor: Any,
        options: Mapping[str, Any] | None = None,
    ) -> int:
        """Return the number of tokens that an image adds to a prompt, measured with a blank image."""
        if self.images is None:
            return _blank_image_tokens(width, height, processor)
        cost = self.images(processor, options or {}).cost(width, height)
        return cost.tokens + cost.around


def _recompute_family(name: str, model_type: str, why: str, alone: bool = False) -> Family:
    """Return a family without any reuse, whose processor has to see the whole prompt."""
    return Family(name, (model_type,), None, "recompute", alone=alone, why=why)


def _bidirectional_images(layers: TwoWay) -> Callable[[Any], TwoWay]:
    """Return a function for Gemma 4, whose small models have causal attention within images."""

    def two_way(text: Any) -> TwoWay:
        return layers if text.use_bidirectional_attention == "vision" else "never"

    return two_way


CHANNEL = Thinking(opens="<|channel>", closes="<channel|>")

FAMILIES = (
    Family("Qwen3-VL", ("qwen3_vl", "qwen3_vl_moe"), QwenImages, axes=3),
    Family("Qwen2.5-VL", ("qwen2_5_vl", "qwen2_vl"), QwenImages, axes=3),
    Family(
        "Qwen3.5",
        ("qwen3_5", "qwen3_5_moe"),
        QwenImages,
        axes=3,
        recurrent=True,
        published=r"qwen-?3[._][56]",
    ),
    Family(
        "Qwen4 preview",
        ("qwen4_exp",),
        QwenImages,
        axes=3,
        reuse="recompute",
        why="its layers select keys with a separate index, which the cache does not store",
    ),
    Family("InternVL", ("internvl",), InternVLImages),
    Family("GLM-V", ("glm4v", "glm4v_moe", "glm46v"), ImagePreprocessor, axes=3),
    Family(
        "Kimi K2.5",
        ("kimi_k25",),
        ImagePreprocessor,
        thinking=Thinking("thinking"),
        published=r"kimi-?k2",
    ),
    Family(
        "Gemma 4",
        ("gemma4",),
        ImagePreprocessor,
        two_way=_bidirectional_images("sliding"),
        thinking=CHANNEL,
        published=r"gemma-?4",
    ),
    Family(
        "Gemma 4 unified",
        ("gemma4_unified",),
        ImagePreprocessor,
        two_way=_bidirectional_images("beyond"),
        thinking=CHANNEL,
    ),
    Family("Gemma 3", ("gemma3",), ImagePreprocessor, two_way=lambda text: "always"),
    Family(
        "Mistral 3",
        ("mistral3",),
        ImagePreprocessor,
        thinking=Thinking("reasoning_effort", "high", "none", "[THINK]", "[/THINK]"),
        published=r"(mis|magis|minis)tral",
    ),
    Family(
        "Idefics 3 and SmolVLM",
        ("idefics3", "smolvlm"),
        ImagePreprocessor,
        image_axis=1,
    ),
    Family("Ovis 2", ("ovis2",), ImagePreprocessor),
    Family(
        "LFM2-VL",
        ("lfm2_vl",),
        ImagePreprocessor,
        recurrent=True,
        published=r"lfm-?2",
    ),
    Family(
        "MiniCPM-V 4.6",
        ("minicpmv4_6",),
        NumberedImages,
        recurrent=True,
        image_axis=3,
        published=r"minicpm-?v-?4[._]?6",
    ),
    Family("Aya Vision", ("aya_vision",), ImagePreprocessor),
    _recompute_family(
        "Molmo 2",
        "molmo2",
        "all images of a dialogue attend to each other, so a new image changes earlier keys and values",
    ),
    _recompute_family(
        "LLaVA-OneVision",
        "llava_onevision",
        "the tokens of an image depend on the other images of the prompt, so a longer prompt has another prefix",
    ),
    _recompute_family(
        "PaliGemma",
        "paligemma",
        "its attention is bidirectional over the whole prompt, so added text changes earlier keys and values",
    ),
    _recompute_family(
        "Llama 4",
        "llama4",
        "its layers without positions scale attention scores by an internal token count that includes padding",
        alone=True,
    ),
)

# All other models that AutoModelForImageTextToText supports.
OTHER = _recompute_family(
    "other", "", "it is unknown what its image tokens and positions depend on"
)


@cache
def families() -> tuple[Family, ...]:
    """Return the families of the table and of installed packages. Raises SetupError."""
    added = {name: registry.load("model family", name) for name in registry.names("model family")}
    for name, family in added.items():
        if not isinstance(family, Family):
            raise SetupError(
                f"the entry point {name} of {registry.package('model family', name)} is not a Family."
                " Fix or uninstall that package."
            )
    return (*FAMILIES, *added.values())


def family_of(model_type: str) -> Family:
    """Return the family for the `model_type` of a model's configuration."""
    return next((family for family in families() if model_type in family.model_types), OTHER)


def family_named(model: str) -> Family:
    """Guess the family of a server's model from its name; `OTHER` if no family matches."""
    matches = (
        family
        for family in families()
        if family.published and re.search(family.published, model.lower())
    )
    return next(matches, OTHER)


def check_family_options(options: Mapping[str, Any], model_type: str) -> None:
    """Raise SetupError if an engine option belongs to another family, or the requested reuse is not exact."""
    family = family_of(model_type)
    if options.get("reuse") == "keys" and family.reuse != "keys":
        raise SetupError(
            f"--engine-option reuse=keys is not supported for {model_type}: {family.why}. Omit the option."
        )
    for entry in families():
        wrong = [name for name in entry.options if name in options and name not in family.options]
        if wrong:
            names = " and ".join(entry.options)
            raise SetupError(
                f"--engine-option {names} {'apply' if len(entry.options) > 1 else 'applies'} only to"
                f" {entry.name}, but this model is a {model_type}"
            )


def _blank_image_tokens(width: int, height: int, processor: Any) -> int:
    """Return the number of tokens that a blank image adds to a prompt.

    The prompt without it is encoded by the tokenizer, because some processors require an image.
    """
    from PIL import Image

    def prompt(content: list[dict[str, str]]) -> str:
        text: str = processor.apply_chat_template(
            [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
        )
        return text

    blank = Image.new("RGB", (width, height))
    inputs = processor(text=[prompt([{"type": "image"}])], images=[[blank]], return_tensors="pt")
    return int(inputs["input_ids"].shape[1]) - len(processor.tokenizer(prompt([]))["input_ids"])
