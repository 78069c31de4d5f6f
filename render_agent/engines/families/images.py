"""Image preprocessing per model family: the number of tokens of an image, and its tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from PIL.Image import Image, new

if TYPE_CHECKING:
    import torch

Grid: TypeAlias = tuple[int, int, int]

Tensors: TypeAlias = "Mapping[str, torch.Tensor]"
"""Image inputs of a model by argument name. The first axis runs over images or parts of images."""

# Outputs of a processor that belong to the text rather than to the images.
TEXT_OUTPUTS = frozenset(
    "input_ids attention_mask token_type_ids mm_token_type_ids text_replacement_offsets".split()
)

COST_CACHE_SIZE = 256  # image sizes; a run has only a few


@dataclass(frozen=True, slots=True)
class ImageCost:
    """The size of an image in a prompt."""

    tokens: int
    """Image tokens."""
    around: int
    """Tokens that frame or divide the image."""
    text: str
    """Text that replaces the image placeholder."""
    grid: Grid | None = None
    """Frames, rows and columns of patches; None if the model does not get a grid."""


class ImagePreprocessor:
    """Preprocesses images one at a time with the family's own processor.

    For families whose processor treats an image independently of the rest of the prompt. Subclasses set `options`, the
    names of the family's engine options, and `arguments`, additional arguments of the processor.
    """

    options: ClassVar[tuple[str, ...]] = ()
    arguments: Mapping[str, Any] = {}

    def __init__(self, processor: Any, options: Mapping[str, Any]) -> None:
        self.processor = processor
        self.token: int = getattr(processor, "image_token_id", 0)
        self.cost = lru_cache(COST_CACHE_SIZE)(self._cost)

    def resize(self, image: Image) -> Image:
        """Return an image in the size that the processor expects."""
        return image

    def tensors(self, image: Image) -> Tensors:
        """Return the model inputs for an RGB image, computed on the CPU."""
        inputs = self._process(image)
        return {name: value for name, value in inputs.items() if name not in TEXT_OUTPUTS}

    def expand_placeholders(self, text: str, replacements: Sequence[str]) -> str:
        """Replace the image placeholders of a prompt, in order, with `ImageCost.text` of each image."""
        prompt: str = self.processor.get_text_with_replacements([text], list(replacements))[0][0]
        return prompt

    def _cost(self, width: int, height: int) -> ImageCost:
        """Measure the cost of an image size in pixels with a blank image."""
        inputs = self._process(new("RGB", (width, height)))
        ids = inputs["input_ids"][0].tolist()
        # The placeholder can be a different token than the image tokens that replace it.
        self.token = max(set(ids), key=ids.count)
        tokens = ids.count(self.token)
        grid = inputs.get("image_grid_thw")
        return ImageCost(
            tokens=tokens,
            around=len(ids) - tokens,
            text=inputs["text_replacement_offsets"][0][0]["replacement"],
            grid=None if grid is None else tuple(grid[0].tolist()),
        )

    def _process(self, image: Image) -> Any:
        return self.processor(
            text=[self.processor.image_token],
            images=[[self.resize(image)]],
            return_tensors="pt",
            return_text_replacement_offsets=True,
            **self.arguments,
        )


class QwenImages(ImagePreprocessor):
    """Qwen-VL: qwen-vl-utils resizes an image to whole tokens, and the processor splits it into patches.

    The options `min_pixels` and `max_pixels` limit the area of the resized image; the processor has defaults.
    """

    options: ClassVar[tuple[str, ...]] = ("min_pixels", "max_pixels")
    arguments: Mapping[str, Any] = {"do_resize": False}

    def __init__(self, processor: Any, options: Mapping[str, Any]) -> None:
        super().__init__(processor, options)
        size = processor.image_processor.size
        self.min_pixels = options.get("min_pixels") or _edge(size, "shortest_edge")
        self.max_pixels = options.get("max_pixels") or _edge(size, "longest_edge")

    def resize(self, image: Image) -> Image:
        """Return an image whose sides are multiples of a token and whose area is within the limits."""
        from qwen_vl_utils import process_vision_info

        limits = {"min_pixels": self.min_pixels, "max_pixels": self.max_pixels}
        content = [{"type": "image", "image": image, **limits}]
        patch: int = self.processor.image_processor.patch_size
        images, _ = process_vision_info(
            [{"role": "user", "content": content}], image_patch_size=patch
        )
        result: Image = images[0]
        return result


class InternVLImages(ImagePreprocessor):
    """InternVL: square tiles, each resized for the vision tower, and a thumbnail if there are several.

    The option `max_patches` is the maximum number of tiles per image. The default is 1, as InternVL is trained for
    video frames: a view has hardly more pixels than one tile, a dialogue contains many views, and every tile takes 256
    tokens. Four tiles and the thumbnail would take 1,280 tokens, where Qwen3-VL takes 300.
    """

    options: ClassVar[tuple[str, ...]] = ("max_patches",)

    def __init__(self, processor: Any, options: Mapping[str, Any]) -> None:
        super().__init__(processor, options)
        max_patches = int(options.get("max_patches") or 1)
        min_patches = min(processor.image_processor.min_patches, max_patches)
        self.arguments = {
            "crop_to_patches": True,
            "min_patches": min_patches,
            "max_patches": max_patches,
        }


class NumberedImages(ImagePreprocessor):
    """MiniCPM-V: every image is preceded by its number in the dialogue."""

    def expand_placeholders(self, text: str, replacements: Sequence[str]) -> str:
        """Replace the image placeholders of a prompt, and number the images."""
        start, end = self.processor.image_id_start_token, self.processor.image_id_end_token
        numbered = [
            replacement.replace(f"{start}0{end}", f"{start}{number}{end}")
            for number, replacement in enumerate(replacements)
        ]
        return super().expand_placeholders(text, numbered)


def concatenate(
    parts: Sequence[Tensors],
    axis: int = 0,  # axis to concatenate along; tensors with fewer axes use the first
) -> dict[str, torch.Tensor]:
    """Concatenate the tensors of several images, padding smaller ones with zeros."""
    import torch

    result = {}
    for name in parts[0]:
        tensors = [part[name] for part in parts]
        dim = axis if tensors[0].dim() > axis else 0
        shape = [max(sizes) for sizes in zip(*(tensor.shape for tensor in tensors), strict=True)]
        result[name] = torch.cat([_pad(tensor, shape, dim) for tensor in tensors], dim=dim)
    return result


def _pad(tensor: torch.Tensor, shape: Sequence[int], dim: int) -> torch.Tensor:
    """Pad a tensor with zeros at the end of every axis except `dim`."""
    import torch

    gaps = [size - length for length, size in zip(tensor.shape, shape, strict=True)]
    gaps[dim] = 0
    if not any(gaps):
        return tensor
    padding = [edge for count in reversed(gaps) for edge in (0, count)]
    return torch.nn.functional.pad(tensor, padding)


def _edge(size: Any, name: str) -> int | None:
    """Return one limit of an image processor's `size`, which is a mapping or an object depending on the version."""
    return size.get(name) if isinstance(size, dict) else getattr(size, name, None)
