"""Dialogues with pictures → the tensors of one batch, through the model's own processor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from PIL.Image import Image

from render_agent.engines.seam import Request


@dataclass(frozen=True, slots=True)
class PreparedPrompt:
    """One dialogue, ready to be put into a batch: the chat template's text, and its pictures in order."""

    text: str
    pictures: tuple[Image, ...]


class DialogueTensors:
    """Turns requests into tensors; pictures go through qwen-vl-utils where the model is a Qwen-VL.

    min_pixels, max_pixels: the area that a picture is scaled into; by default the processor's own.
    """

    def __init__(
        self,
        processor: Any,
        model_type: str,
        min_pixels: int | None = None,
        max_pixels: int | None = None,
    ) -> None:
        self.processor = processor
        self.is_qwen = is_qwen_vl(model_type)
        size = processor.image_processor.size if self.is_qwen else {}
        self.min_pixels = min_pixels or _edge(size, "shortest_edge")
        self.max_pixels = max_pixels or _edge(size, "longest_edge")

    def prepare(self, request: Request) -> PreparedPrompt:
        """Return one request's text and pictures. Raises whatever its pictures or its texts cause."""
        text = self.processor.apply_chat_template(
            list(request.messages), tokenize=False, add_generation_prompt=True
        )
        pieces = (piece for message in request.messages for piece in message["content"])
        files = [piece["image"] for piece in pieces if piece["type"] == "image"]
        # Version 5.17 takes a placeholder in a text for a picture of the next row.
        if self.is_qwen and text.count(self.processor.image_token) != len(files):
            raise ValueError(
                f"a text holds {self.processor.image_token}, which stands for a picture"
            )
        pictures = [request.picture(file).convert("RGB") for file in files]
        return PreparedPrompt(text, tuple(self._scaled(pictures)))

    def encode(self, prompts: Sequence[PreparedPrompt], device: str = "cpu") -> Any:
        """Return the processor's tensors of a batch, padded on the left.

        device: where pictures are cut into patches; on a CPU that takes some 35 ms for 640 × 480.

        `input_ids` and `attention_mask` are (rows, length); all that the processor gives is kept,
        because the model's positions depend on it.
        """
        arguments: dict[str, Any] = {
            "text": [prompt.text for prompt in prompts],
            "padding": True,
            # The side that a processor was saved with is not restored when it is loaded.
            "padding_side": "left",
            "return_tensors": "pt",
        }
        if any(prompt.pictures for prompt in prompts):
            arguments["images"] = [list(prompt.pictures) for prompt in prompts]
            if self.is_qwen:
                arguments |= {"do_resize": False, "device": device}
        return self.processor(**arguments)

    def _scaled(self, pictures: Sequence[Image]) -> Sequence[Image]:
        if not (self.is_qwen and pictures):
            return pictures
        from qwen_vl_utils import process_vision_info

        limits = {"min_pixels": self.min_pixels, "max_pixels": self.max_pixels}
        content = [{"type": "image", "image": picture, **limits} for picture in pictures]
        patch_size = self.processor.image_processor.patch_size
        scaled: list[Image] = process_vision_info(
            [{"role": "user", "content": content}], image_patch_size=patch_size
        )[0]
        return scaled


def is_qwen_vl(model_type: str) -> bool:
    """Whether qwen-vl-utils prepares this model's pictures as its own processor would."""
    return model_type.startswith(("qwen2_vl", "qwen2_5_vl", "qwen3_vl"))


def _edge(size: Any, name: str) -> int | None:
    """Return one limit of an image processor's `size`, a mapping or an object by version."""
    return size.get(name) if isinstance(size, dict) else getattr(size, name, None)
