"""How each family of models takes a picture: what it costs in tokens, and its tensors."""

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
"""What a model is given of pictures, by the name of its argument: picture after picture along the first axis."""

OF_TEXT = frozenset(
    "input_ids attention_mask token_type_ids mm_token_type_ids text_replacement_offsets".split()
)
"""What a processor gives beside a picture's tensors."""

SIZES = 256
"""How many sizes of pictures are remembered by what they cost."""


@dataclass(frozen=True, slots=True)
class PictureCost:
    """The cost of a picture: tokens of the prompt, and rows of `pixel_values`.

    text: what the processor writes for its placeholder, and around: how many of its tokens frame and divide the
    picture. grid: frames, rows and columns of patches; None where the model is told of none.
    """

    tokens: int
    around: int
    rows: int
    text: str
    grid: Grid | None = None


class PictureForm:
    """The text and the tensors of a picture, as a family's own processor makes them of the picture alone.

    For families whose processor does the same to a picture whatever stands beside it. options: the names of its
    engine options. arguments: what the processor is told beside the picture.
    """

    options: ClassVar[tuple[str, ...]] = ()
    arguments: Mapping[str, Any] = {}

    def __init__(self, processor: Any, options: Mapping[str, Any]) -> None:
        self.processor = processor
        self.token: int = getattr(processor, "image_token_id", 0)
        # Asked with a blank picture, since a few of a run's views have sizes of their own at most.
        self.cost = lru_cache(SIZES)(self._cost)

    def scaled(self, picture: Image) -> Image:
        """Return a picture as the processor takes it."""
        return picture

    def values(self, picture: Image, device: str = "cpu") -> Tensors:
        """Return what the model is given of an RGB picture, computed on a device."""
        inputs = self._processed(picture, device)
        return {name: value for name, value in inputs.items() if name not in OF_TEXT}

    def written(self, text: str, pictures: Sequence[str]) -> str:
        """Return a prompt's text with what the processor writes for each of its pictures."""
        prompt: str = self.processor.get_text_with_replacements([text], list(pictures))[0][0]
        return prompt

    def _cost(self, width: int, height: int) -> PictureCost:
        """Return what the processor makes of a blank picture of so many pixels."""
        inputs = self._processed(new("RGB", (width, height)), "cpu")
        ids = inputs["input_ids"][0].tolist()
        # The placeholder may be another token than the many that it becomes.
        self.token = max(set(ids), key=ids.count)
        tokens = ids.count(self.token)
        grid = inputs.get("image_grid_thw")
        return PictureCost(
            tokens=tokens,
            around=len(ids) - tokens,
            rows=len(inputs["pixel_values"]),
            text=inputs["text_replacement_offsets"][0][0]["replacement"],
            grid=None if grid is None else tuple(grid[0].tolist()),
        )

    def _processed(self, picture: Image, device: str) -> Any:
        return self.processor(
            text=[self.processor.image_token],
            images=[[self.scaled(picture)]],
            return_tensors="pt",
            return_text_replacement_offsets=True,
            **self.arguments,
            **({} if device == "cpu" else {"device": device}),
        )


class QwenPictures(PictureForm):
    """Qwen-VL: scaled by qwen-vl-utils to whole tokens, cut into patches by the processor.

    options: `min_pixels` and `max_pixels`, the area that a picture is scaled into; by default the
    processor's own.
    """

    options: ClassVar[tuple[str, ...]] = ("min_pixels", "max_pixels")
    arguments: Mapping[str, Any] = {"do_resize": False}

    def __init__(self, processor: Any, options: Mapping[str, Any]) -> None:
        super().__init__(processor, options)
        size = processor.image_processor.size
        self.min_pixels = options.get("min_pixels") or _edge(size, "shortest_edge")
        self.max_pixels = options.get("max_pixels") or _edge(size, "longest_edge")

    def scaled(self, picture: Image) -> Image:
        """Return a picture whose sides are whole tokens, of an area within the limits."""
        from qwen_vl_utils import process_vision_info

        limits = {"min_pixels": self.min_pixels, "max_pixels": self.max_pixels}
        content = [{"type": "image", "image": picture, **limits}]
        patch: int = self.processor.image_processor.patch_size
        resized = process_vision_info(
            [{"role": "user", "content": content}], image_patch_size=patch
        )
        scaled: Image = resized[0][0]
        return scaled


class InternVLPictures(PictureForm):
    """InternVL: square tiles, each stretched to what the vision tower takes, and one of the whole.

    options: `max_patches`, the most tiles of a picture, 1 by default: a view has hardly more pixels
    than a tile, a dialogue shows many of them, and every tile costs 256 tokens (four, with the
    thumbnail, would cost 1,280 for what Qwen3-VL sees with 300). It is also how InternVL is trained
    to see the frames of a video.
    """

    options: ClassVar[tuple[str, ...]] = ("max_patches",)

    def __init__(self, processor: Any, options: Mapping[str, Any]) -> None:
        super().__init__(processor, options)
        most = int(options.get("max_patches") or 1)
        least = min(processor.image_processor.min_patches, most)
        self.arguments = {"crop_to_patches": True, "min_patches": least, "max_patches": most}


class NumberedPictures(PictureForm):
    """MiniCPM-V: every picture has its number in the dialogue before it."""

    def written(self, text: str, pictures: Sequence[str]) -> str:
        """Return a prompt's text with what the processor writes for each of its pictures."""
        start, end = self.processor.image_id_start_token, self.processor.image_id_end_token
        numbered = [
            picture.replace(f"{start}0{end}", f"{start}{number}{end}")
            for number, picture in enumerate(pictures)
        ]
        return super().written(text, numbered)


def joined(parts: Sequence[Tensors], axis: int = 0) -> dict[str, torch.Tensor]:
    """Return the tensors of several pictures as one each, the smaller ones filled up with zeros.

    axis: along which pictures follow each other in tensors that have it; in those that do not, along the first.
    """
    import torch

    stacked = {}
    for name in parts[0]:
        tensors = [part[name] for part in parts]
        along = axis if tensors[0].dim() > axis else 0
        most = [max(sizes) for sizes in zip(*(tensor.shape for tensor in tensors), strict=True)]
        stacked[name] = torch.cat([_filled(tensor, most, along) for tensor in tensors], dim=along)
    return stacked


def _filled(tensor: torch.Tensor, sizes: Sequence[int], along: int) -> torch.Tensor:
    """Return a tensor of so many rows and columns, all axes but one filled up with zeros at their ends."""
    import torch

    missing = [most - own for own, most in zip(tensor.shape, sizes, strict=True)]
    missing[along] = 0
    if not any(missing):
        return tensor
    ends = [edge for count in reversed(missing) for edge in (0, count)]
    return torch.nn.functional.pad(tensor, ends)


def _edge(size: Any, name: str) -> int | None:
    """Return one limit of an image processor's `size`, a mapping or an object by version."""
    return size.get(name) if isinstance(size, dict) else getattr(size, name, None)
