"""How each family of models takes a picture: what it costs in tokens, and its tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeAlias

from PIL.Image import Image

Grid: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class PictureCost:
    """What a picture becomes: how many tokens of a prompt, how many rows of `pixel_values`.

    grid: frames, rows and columns of patches; None where the model is told of none.
    """

    tokens: int
    rows: int
    grid: Grid | None = None


class PictureForm(Protocol):
    """The way of one family to turn pictures into tensors, with its options.

    options: the names of its engine options. framed: whether a placeholder becomes, beside the
    picture's tokens, one that begins and one that ends it.
    """

    options: ClassVar[tuple[str, ...]]
    framed: ClassVar[bool]

    def cost(self, width: int, height: int) -> PictureCost:
        """Return what a picture of so many pixels becomes. Nothing is read."""
        ...

    def values(self, picture: Image, device: str = "cpu") -> Any:
        """Return the `pixel_values` of an RGB picture, a float32 tensor, computed on a device."""
        ...


class QwenPictures:
    """Qwen-VL: scaled by qwen-vl-utils to whole tokens, cut into patches by the processor.

    options: `min_pixels` and `max_pixels`, the area that a picture is scaled into; by default the
    processor's own.
    """

    options: ClassVar[tuple[str, ...]] = ("min_pixels", "max_pixels")
    framed: ClassVar[bool] = False

    def __init__(self, processor: Any, options: Mapping[str, Any]) -> None:
        self.processor = processor.image_processor
        size = self.processor.size
        self.min_pixels = options.get("min_pixels") or _edge(size, "shortest_edge")
        self.max_pixels = options.get("max_pixels") or _edge(size, "longest_edge")

    def cost(self, width: int, height: int) -> PictureCost:
        """Return the patches of a picture after scaling, and a token for each square of them."""
        from qwen_vl_utils import smart_resize

        patch, merged = self.processor.patch_size, self.processor.merge_size
        factor = patch * merged
        rows, columns = (
            edge // patch
            for edge in smart_resize(height, width, factor, self.min_pixels, self.max_pixels)
        )
        return PictureCost(rows * columns // merged**2, rows * columns, (1, rows, columns))

    def scaled(self, picture: Image) -> Image:
        """Return a picture whose sides are whole tokens, of an area within the limits."""
        from qwen_vl_utils import process_vision_info

        limits = {"min_pixels": self.min_pixels, "max_pixels": self.max_pixels}
        content = [{"type": "image", "image": picture, **limits}]
        found = process_vision_info(
            [{"role": "user", "content": content}], image_patch_size=self.processor.patch_size
        )
        scaled: Image = found[0][0]
        return scaled

    def values(self, picture: Image, device: str = "cpu") -> Any:
        """Return the patches of a picture, (patches, channels × frames × height × width)."""
        scaled = [self.scaled(picture)]
        return self.processor(images=scaled, do_resize=False, device=device, return_tensors="pt")[
            "pixel_values"
        ]


class InternVLPictures:
    """InternVL: square tiles, each stretched to what the vision tower takes, and one of the whole.

    options: `max_patches`, the most tiles of a picture, 1 by default: a view has hardly more pixels
    than a tile, a dialogue shows many of them, and every tile costs 256 tokens (four, with the
    thumbnail, would cost 1,280 for what Qwen3-VL sees with 300). It is also how InternVL is trained
    to see the frames of a video.
    """

    options: ClassVar[tuple[str, ...]] = ("max_patches",)
    framed: ClassVar[bool] = True

    def __init__(self, processor: Any, options: Mapping[str, Any]) -> None:
        self.processor = processor.image_processor
        self.tile_tokens = int(processor.image_seq_length)
        self.max_patches = int(options.get("max_patches") or 1)
        self.min_patches = min(self.processor.min_patches, self.max_patches)

    def cost(self, width: int, height: int) -> PictureCost:
        """Return the tokens of all tiles of a picture, without the two that frame them."""
        tiles = self.processor.get_number_of_image_patches(height, width, self._limits())
        return PictureCost(tiles * self.tile_tokens, tiles)

    def values(self, picture: Image, device: str = "cpu") -> Any:
        """Return the tiles of a picture, (tiles, 3, height, width); the last shows it as a whole."""
        return self.processor(
            images=[picture], device=device, return_tensors="pt", **self._limits()
        )["pixel_values"]

    def _limits(self) -> dict[str, Any]:
        return {
            "crop_to_patches": True,
            "min_patches": self.min_patches,
            "max_patches": self.max_patches,
        }


def _edge(size: Any, name: str) -> int | None:
    """Return one limit of an image processor's `size`, a mapping or an object by version."""
    return size.get(name) if isinstance(size, dict) else getattr(size, name, None)
