"""The families of models that are known, in one table; whatever is special about one stands here."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from render_agent.engines.transformers.families.pictures import (
    InternVLPictures,
    NumberedPictures,
    PictureForm,
    ProcessorPictures,
    QwenPictures,
)
from render_agent.engines.transformers.families.thinking import Thinking
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

    model_types: what their configurations call them. reuse: the best exact way to compute nothing
    twice over the turns of a question: `keys` keeps keys and values (and the states of layers without
    them), `vision` what the vision tower made of a picture, `recompute` nothing. why: in one sentence why
    not more is kept. vision: whether `VisionCache` understands it. pictures: makes the form that pictures
    take from a processor and engine options; None where only the processor knows it. axes: how many
    positions a token has: three (time, height, width) are what `model.model.get_rope_index` counts, one is
    its place in the prompt. token_types: whether the model is told which tokens stand for pictures.
    two_way: in which layers the tokens of a picture see each other, by the text part's configuration.
    recurrent: whether layers carry a state instead of keys. picture_axis: along which axis of its tensors pictures follow each other.
    thinking: what its chat template takes to think or not, and the marks of its thoughts. published: what names of
    its models look like, as a regular expression, where a server tells nothing but a name.
    """

    name: str
    model_types: tuple[str, ...]
    reuse: Literal["keys", "vision", "recompute"]
    vision: bool = True
    pictures: Callable[[Any, Mapping[str, Any]], PictureForm] | None = None
    options: tuple[str, ...] = ()
    axes: Literal[1, 3] = 1
    token_types: bool = False
    two_way: Callable[[Any], TwoWay] = _never
    recurrent: bool = False
    picture_axis: int = 0
    thinking: Thinking = field(default_factory=Thinking)
    published: str | None = None
    why: str = ""

    def picture_tokens(
        self, width: int, height: int, processor: Any, options: Mapping[str, Any] | None = None
    ) -> int:
        """Return how many tokens a picture of so many pixels adds to a prompt; none is read.

        Where only the processor knows, it is asked with a blank picture.
        """
        if self.pictures is None:
            return _asked(width, height, processor)
        form = self.pictures(processor, options or {})
        cost = form.cost(width, height)
        return cost.tokens + cost.around + 2 * form.framed


QWEN3_VL = Family(
    "Qwen3-VL",
    ("qwen3_vl", "qwen3_vl_moe"),
    reuse="keys",
    pictures=QwenPictures,
    options=QwenPictures.options,
    axes=3,
    token_types=True,
)
QWEN2_VL = Family(
    "Qwen2.5-VL",
    ("qwen2_5_vl", "qwen2_vl"),
    reuse="keys",
    pictures=QwenPictures,
    options=QwenPictures.options,
    axes=3,
    token_types=True,
)
QWEN4 = Family(
    "Qwen4 preview",
    ("qwen4_exp",),
    reuse="vision",
    pictures=QwenPictures,
    options=QwenPictures.options,
    axes=3,
    token_types=True,
    why="its layers choose the keys that they look at by an index of their own, which is not kept",
)
INTERNVL = Family(
    "InternVL",
    ("internvl",),
    reuse="keys",
    pictures=InternVLPictures,
    options=InternVLPictures.options,
)
QWEN3_5 = Family(
    "Qwen3.5",
    ("qwen3_5", "qwen3_5_moe"),
    reuse="keys",
    pictures=QwenPictures,
    options=QwenPictures.options,
    axes=3,
    token_types=True,
    recurrent=True,
    published=r"qwen-?3[._][56]",
)
GLM = Family(
    "GLM-V",
    ("glm4v", "glm4v_moe", "glm46v"),
    reuse="keys",
    pictures=ProcessorPictures,
    axes=3,
    token_types=True,
)
KIMI = Family(
    "Kimi K2.5",
    ("kimi_k25",),
    reuse="keys",
    pictures=ProcessorPictures,
    thinking=Thinking("thinking"),
    published=r"kimi-?k2",
)


def _seen_both_ways(layers: TwoWay) -> Callable[[Any], TwoWay]:
    """Return which layers those are where a Gemma 4 says that it looks at pictures both ways; its small ones do not."""

    def two_way(text: Any) -> TwoWay:
        return layers if text.use_bidirectional_attention == "vision" else "never"

    return two_way


CHANNEL = Thinking(opens="<|channel>", closes="<channel|>")

GEMMA4 = Family(
    "Gemma 4",
    ("gemma4",),
    reuse="keys",
    vision=False,
    pictures=ProcessorPictures,
    two_way=_seen_both_ways("sliding"),
    thinking=CHANNEL,
    published=r"gemma-?4",
)
GEMMA4_UNIFIED = Family(
    "Gemma 4 unified",
    ("gemma4_unified",),
    reuse="keys",
    vision=False,
    pictures=ProcessorPictures,
    two_way=_seen_both_ways("beyond"),
    thinking=CHANNEL,
)
GEMMA3 = Family(
    "Gemma 3",
    ("gemma3",),
    reuse="keys",
    pictures=ProcessorPictures,
    two_way=lambda text: "always",
)

MISTRAL3 = Family(
    "Mistral 3",
    ("mistral3",),
    reuse="keys",
    vision=False,
    pictures=ProcessorPictures,
    thinking=Thinking("reasoning_effort", "high", "none", "[THINK]", "[/THINK]"),
    published=r"(mis|magis|minis)tral",
)
IDEFICS3 = Family(
    "Idefics 3 and SmolVLM",
    ("idefics3", "smolvlm"),
    reuse="keys",
    vision=False,
    pictures=ProcessorPictures,
    picture_axis=1,
)
OVIS2 = Family("Ovis 2", ("ovis2",), reuse="keys", vision=False, pictures=ProcessorPictures)
LFM2 = Family(
    "LFM2-VL",
    ("lfm2_vl",),
    reuse="keys",
    vision=False,
    pictures=ProcessorPictures,
    recurrent=True,
    published=r"lfm-?2",
)
MINICPM = Family(
    "MiniCPM-V 4.6",
    ("minicpmv4_6",),
    reuse="keys",
    vision=False,
    pictures=NumberedPictures,
    recurrent=True,
    picture_axis=3,
    published=r"minicpm-?v-?4[._]?6",
)
AYA = Family("Aya Vision", ("aya_vision",), reuse="keys", pictures=ProcessorPictures)

MOLMO2 = Family(
    "Molmo 2",
    ("molmo2",),
    reuse="recompute",
    vision=False,
    why="all pictures of a dialogue see each other, so that a new one changes what was read before",
)
LLAVA_ONEVISION = Family(
    "LLaVA-OneVision",
    ("llava_onevision",),
    reuse="recompute",
    vision=False,
    why="a picture's tokens depend on the pictures beside it, so that a longer prompt begins otherwise",
)
PALIGEMMA = Family(
    "PaliGemma",
    ("paligemma",),
    reuse="recompute",
    vision=False,
    why="its prompts are read from both sides, so that whatever is added changes all before it",
)
LLAMA4 = Family(
    "Llama 4",
    ("llama4",),
    reuse="recompute",
    vision=False,
    why="its layers without positions scale scores by a count of tokens that it keeps to itself",
)

OTHER = Family(
    "other",
    (),
    reuse="recompute",
    vision=False,
    why="nothing is known about what its pictures and its positions depend on",
)
"""Whatever else AutoModelForImageTextToText serves."""

FAMILIES = (
    QWEN3_VL,
    QWEN2_VL,
    QWEN3_5,
    QWEN4,
    INTERNVL,
    GLM,
    KIMI,
    GEMMA4,
    GEMMA4_UNIFIED,
    GEMMA3,
    MISTRAL3,
    IDEFICS3,
    OVIS2,
    LFM2,
    MINICPM,
    AYA,
    MOLMO2,
    LLAVA_ONEVISION,
    PALIGEMMA,
    LLAMA4,
)


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


def _asked(width: int, height: int, processor: Any) -> int:
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
