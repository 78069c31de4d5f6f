"""The families of models that are known, in one table; whatever is special about one stands here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from render_agent.engines.transformers.families.pictures import (
    InternVLPictures,
    PictureForm,
    QwenPictures,
)
from render_agent.errors import SetupError


@dataclass(frozen=True, slots=True)
class Family:
    """Models that take pictures and count positions alike.

    model_types: what their configurations call them. reuse: the best exact way to compute nothing
    twice over the turns of a question: `keys` keeps keys and values, `vision` what the vision tower
    made of a picture, `recompute` nothing. vision: whether `VisionCache` understands it. pictures: makes the form that pictures take from a
    processor and engine options; None where only the processor knows it. axes: how many positions a
    token has: three (time, height, width) are what `model.model.get_rope_index` counts, one is its
    place in the prompt. token_types: whether the model is told which tokens stand for pictures.
    """

    name: str
    model_types: tuple[str, ...]
    reuse: Literal["keys", "vision", "recompute"]
    vision: bool = True
    pictures: Callable[[Any, Mapping[str, Any]], PictureForm] | None = None
    options: tuple[str, ...] = ()
    axes: Literal[1, 3] = 1
    token_types: bool = False

    def picture_tokens(
        self, width: int, height: int, processor: Any, options: Mapping[str, Any] | None = None
    ) -> int:
        """Return how many tokens a picture of so many pixels adds to a prompt; none is read.

        Where only the processor knows, it is asked with a blank picture, alone in its dialogue:
        some models give fewer tokens to one among several.
        """
        if self.pictures is None:
            return _asked(width, height, processor)
        form = self.pictures(processor, options or {})
        return form.cost(width, height).tokens + 2 * form.framed


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
INTERNVL = Family(
    "InternVL",
    ("internvl",),
    reuse="keys",
    pictures=InternVLPictures,
    options=InternVLPictures.options,
)
GEMMA3 = Family("Gemma 3", ("gemma3",), reuse="vision")
"""Keys are not kept: most layers see some thousand tokens only, and forget what lies before."""

OTHER = Family("other", (), reuse="recompute", vision=False)
"""Whatever else AutoModelForImageTextToText serves.

Nothing is kept: with LLaVA-OneVision, for one, a picture's tokens depend on the pictures beside it.
"""

FAMILIES = (QWEN3_VL, QWEN2_VL, INTERNVL, GEMMA3)


def family_of(model_type: str) -> Family:
    """Return the family of a model by its configuration's `model_type`."""
    return next((family for family in FAMILIES if model_type in family.model_types), OTHER)


def check_family_options(options: Mapping[str, Any], model_type: str) -> None:
    """SetupError where an engine option is another family's."""
    family = family_of(model_type)
    for other in FAMILIES:
        wrong = [name for name in other.options if name in options and name not in family.options]
        if wrong:
            names = " and ".join(other.options)
            raise SetupError(
                f"--engine-option {names} {'are' if len(other.options) > 1 else 'is'}"
                f" {other.name}'s, and this is a {model_type}"
            )


def _asked(width: int, height: int, processor: Any) -> int:
    """Return the tokens that a blank picture adds to a dialogue that a processor prepares."""
    from PIL import Image

    def tokens(content: list[dict[str, str]], pictures: list[Image.Image]) -> int:
        text = processor.apply_chat_template(
            [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
        )
        shown = {"images": pictures} if pictures else {}
        return len(processor(text=[text], **shown)["input_ids"][0])

    return tokens([{"type": "image"}], [Image.new("RGB", (width, height))]) - tokens([], [])
