"""The table of model families, with all that is special about each."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from render_agent.engines.families.pictures import (
    InternVLPictures,
    NumberedPictures,
    PictureForm,
    QwenPictures,
)
from render_agent.engines.families.thinking import Thinking
from render_agent.errors import SetupError

TwoWay: TypeAlias = Literal["never", "sliding", "always", "beyond"]
"""In which layers the tokens of one picture see each other: in none, in those with a window, in all.

In all as far as their windows reach, or beyond.
"""


def _never(text: Any) -> TwoWay:
    return "never"


@dataclass(frozen=True, slots=True)
class Family:
    """Models that take pictures and count positions alike.

    model_types: what their configurations call them. pictures: the form that pictures take; None where only the
    processor knows it. reuse: the best exact way to compute nothing twice over the turns of a question: `keys` keeps
    keys and values (and the states of layers without them), `vision` what the vision tower made of a picture,
    `recompute` nothing. why: in one sentence why not more is kept. vision: whether `VisionCache` understands it.
    axes: how many positions a token has: three (time, height, width) are what `model.model.get_rope_index` counts,
    one is its place in the prompt. two_way: in which layers the tokens of a picture see each other, by the text
    part's configuration. recurrent: whether layers carry a state instead of keys. alone: whether padding changes
    what is read behind it, so that a call of the model takes one prompt. picture_axis: along which axis of its tensors
    pictures follow each other. thinking: what its chat template takes to think or not, and the marks of its thoughts.
    published: what names of its models look like, as a regular expression, where a server tells nothing but a name.
    """

    name: str
    model_types: tuple[str, ...]
    pictures: type[PictureForm] | None
    reuse: Literal["keys", "vision", "recompute"] = "keys"
    vision: bool = True
    axes: Literal[1, 3] = 1
    two_way: Callable[[Any], TwoWay] = _never
    recurrent: bool = False
    alone: bool = False
    picture_axis: int = 0
    thinking: Thinking = field(default_factory=Thinking)
    published: str | None = None
    why: str = ""

    @property
    def options(self) -> tuple[str, ...]:
        """The names of its engine options."""
        return () if self.pictures is None else self.pictures.options

    def picture_tokens(
        self, width: int, height: int, processor: Any, options: Mapping[str, Any] | None = None
    ) -> int:
        """Return how many tokens a picture of so many pixels adds to a prompt; none is read.

        Where only the processor knows, it is asked with a blank picture.
        """
        if self.pictures is None:
            return _blank_picture_tokens(width, height, processor)
        cost = self.pictures(processor, options or {}).cost(width, height)
        return cost.tokens + cost.around


def _read_anew(name: str, model_type: str, why: str, alone: bool = False) -> Family:
    """Return a family of which nothing is kept, and only the processor knows what its pictures become."""
    return Family(name, (model_type,), None, "recompute", vision=False, alone=alone, why=why)


def _seen_both_ways(layers: TwoWay) -> Callable[[Any], TwoWay]:
    """Return which layers those are where a Gemma 4 says that it looks at pictures both ways; its small ones do not."""

    def two_way(text: Any) -> TwoWay:
        return layers if text.use_bidirectional_attention == "vision" else "never"

    return two_way


CHANNEL = Thinking(opens="<|channel>", closes="<channel|>")

FAMILIES = (
    Family("Qwen3-VL", ("qwen3_vl", "qwen3_vl_moe"), QwenPictures, axes=3),
    Family("Qwen2.5-VL", ("qwen2_5_vl", "qwen2_vl"), QwenPictures, axes=3),
    Family(
        "Qwen3.5",
        ("qwen3_5", "qwen3_5_moe"),
        QwenPictures,
        axes=3,
        recurrent=True,
        published=r"qwen-?3[._][56]",
    ),
    Family(
        "Qwen4 preview",
        ("qwen4_exp",),
        QwenPictures,
        axes=3,
        reuse="vision",
        why="its layers choose the keys that they look at by an index of their own, which is not kept",
    ),
    Family("InternVL", ("internvl",), InternVLPictures),
    Family("GLM-V", ("glm4v", "glm4v_moe", "glm46v"), PictureForm, axes=3),
    Family(
        "Kimi K2.5",
        ("kimi_k25",),
        PictureForm,
        thinking=Thinking("thinking"),
        published=r"kimi-?k2",
    ),
    Family(
        "Gemma 4",
        ("gemma4",),
        PictureForm,
        vision=False,
        two_way=_seen_both_ways("sliding"),
        thinking=CHANNEL,
        published=r"gemma-?4",
    ),
    Family(
        "Gemma 4 unified",
        ("gemma4_unified",),
        PictureForm,
        vision=False,
        two_way=_seen_both_ways("beyond"),
        thinking=CHANNEL,
    ),
    Family("Gemma 3", ("gemma3",), PictureForm, two_way=lambda text: "always"),
    Family(
        "Mistral 3",
        ("mistral3",),
        PictureForm,
        vision=False,
        thinking=Thinking("reasoning_effort", "high", "none", "[THINK]", "[/THINK]"),
        published=r"(mis|magis|minis)tral",
    ),
    Family(
        "Idefics 3 and SmolVLM", ("idefics3", "smolvlm"), PictureForm, vision=False, picture_axis=1
    ),
    Family("Ovis 2", ("ovis2",), PictureForm, vision=False),
    Family("LFM2-VL", ("lfm2_vl",), PictureForm, vision=False, recurrent=True, published=r"lfm-?2"),
    Family(
        "MiniCPM-V 4.6",
        ("minicpmv4_6",),
        NumberedPictures,
        vision=False,
        recurrent=True,
        picture_axis=3,
        published=r"minicpm-?v-?4[._]?6",
    ),
    Family("Aya Vision", ("aya_vision",), PictureForm),
    _read_anew(
        "Molmo 2",
        "molmo2",
        "all pictures of a dialogue see each other, so that a new one changes what was read before",
    ),
    _read_anew(
        "LLaVA-OneVision",
        "llava_onevision",
        "a picture's tokens depend on the pictures beside it, so that a longer prompt begins otherwise",
    ),
    _read_anew(
        "PaliGemma",
        "paligemma",
        "its prompts are read from both sides, so that whatever is added changes all before it",
    ),
    _read_anew(
        "Llama 4",
        "llama4",
        "its layers without positions scale scores by a count of tokens that it keeps to itself, padding included",
        alone=True,
    ),
)

OTHER = _read_anew(
    "other", "", "nothing is known about what its pictures and its positions depend on"
)
"""Whatever else AutoModelForImageTextToText serves."""


def family_of(model_type: str) -> Family:
    """Return the family of a model by its configuration's `model_type`."""
    return next((family for family in FAMILIES if model_type in family.model_types), OTHER)


def family_named(model: str) -> Family:
    """Return the family of a model that a server has, by its name; `OTHER` where that tells nothing."""
    known = (family for family in FAMILIES if family.published)
    named = (family for family in known if re.search(family.published or "", model.lower()))
    return next(named, OTHER)


def check_family_options(options: Mapping[str, Any], model_type: str) -> None:
    """SetupError where an engine option is another family's, or a reuse is asked for that is not exact."""
    family = family_of(model_type)
    wanted = options.get("reuse")
    if (wanted == "keys" and family.reuse != "keys") or (wanted == "vision" and not family.vision):
        raise SetupError(
            f"--engine-option reuse={wanted} is not exact for a {model_type}, or not known to be:"
            f" {family.why or 'what its vision tower makes of a picture cannot be told apart'}; leave it"
            " out"
        )
    for other in FAMILIES:
        wrong = [name for name in other.options if name in options and name not in family.options]
        if wrong:
            names = " and ".join(other.options)
            raise SetupError(
                f"--engine-option {names} {'are' if len(other.options) > 1 else 'is'}"
                f" {other.name}'s, and this is a {model_type}"
            )


def _blank_picture_tokens(width: int, height: int, processor: Any) -> int:
    """Return the tokens that a blank picture adds to a dialogue that a processor prepares.

    The dialogue without it is left to the tokenizer: some processors take none without a picture.
    """
    from PIL import Image

    def text(content: list[dict[str, str]]) -> str:
        written: str = processor.apply_chat_template(
            [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
        )
        return written

    blank = Image.new("RGB", (width, height))
    shown = processor(text=[text([{"type": "image"}])], images=[[blank]], return_tensors="pt")
    return int(shown["input_ids"].shape[1]) - len(processor.tokenizer(text([]))["input_ids"])
