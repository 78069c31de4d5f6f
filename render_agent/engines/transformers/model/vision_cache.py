"""The features that a vision tower computed for pictures, kept for the question's next turns."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import torch

from render_agent.engines.byte_cache import ByteCache

VISION_BYTES = 2**30
"""What the features that are kept may take; a view takes some 10 MB for an 8B Qwen3-VL in bfloat16."""


Features: TypeAlias = "tuple[torch.Tensor, ...]"
"""What the vision tower made of one picture or tile: itself, then one tensor a layer of a deepstack."""


class VisionCache:
    """Stands before a model's `get_image_features` and computes only what was not seen before.

    Pictures are known by their pixels, so one that several questions see is computed once. All that is returned was
    computed by the model itself. For models that are told a grid for each picture (Qwen-VL), and for those of which a
    picture is one or several tiles (InternVL, Gemma3). `kept` counts and bounds what it holds, on the model's device.
    """

    def __init__(self, model: Any, limit: int = VISION_BYTES) -> None:
        """Take the place of the method on this model alone. limit: bytes."""
        self.kept: ByteCache[Features] = ByteCache(limit)
        self._inner = model.model
        self._before = vars(self._inner).get("get_image_features")
        self._compute = self._inner.get_image_features
        self._owners: list[tuple[str, int]] = []
        self._output: Any = None
        self._inner.get_image_features = self._features

    @contextmanager
    def showing(self, owners: Sequence[tuple[str, int]]) -> Iterator[None]:
        """Say whose pictures the next call of the model shows.

        owners: row after row of the batch its question and how many rows of `pixel_values` it has.
        Without it, what is kept belongs to nobody and goes first.
        """
        self._owners = list(owners)
        try:
            yield
        finally:
            self._owners = []

    def retire(self, question_id: str) -> None:
        """Give up what no other question is shown."""
        self.kept.retire(question_id)

    def close(self) -> None:
        """Give the model its method back, and the memory."""
        del self._inner.get_image_features
        if self._before is not None:
            self._inner.get_image_features = self._before
        self.kept.clear()

    def _features(
        self, pixel_values: torch.Tensor, image_grid_thw: torch.Tensor | None = None, **more: Any
    ) -> Any:
        """Return what the model's own method would, with the same arguments."""
        counts = [1] * len(pixel_values)
        if image_grid_thw is not None:
            counts = image_grid_thw.prod(-1).tolist()
        pictures = torch.split(pixel_values, counts)
        grids = [None] * len(counts) if image_grid_thw is None else image_grid_thw.tolist()
        keys = [_key(*entry) for entry in zip(pictures, grids, strict=True)]
        owners = self._owner_of_each(counts)
        asked = dict.fromkeys(keys)
        by_key = {key: self.kept.get(key) for key in asked}
        places = [keys.index(key) for key, features in by_key.items() if features is None]
        if places:
            grid = {} if image_grid_thw is None else {"image_grid_thw": image_grid_thw[places]}
            # Kept too, for the form of what is returned where nothing has to be computed.
            self._output = self._compute(torch.cat([pictures[p] for p in places]), **grid, **more)
            for place, features in zip(places, _divided(self._output, len(places)), strict=True):
                by_key[keys[place]] = features
        shown = [kept for key in keys if (kept := by_key[key]) is not None]
        for key, owner, kept in zip(keys, owners, shown, strict=True):
            if not self.kept.own(key, owner):
                self.kept.put(key, kept, sum(layer.nbytes for layer in kept), owner)
        return _joined(self._output, shown)

    def _owner_of_each(self, counts: Sequence[int]) -> list[str | None]:
        """Return the question of each picture; None for all where `showing` named none, or another number."""
        rows = [question for question, number in self._owners for _ in range(number)]
        if len(rows) != sum(counts):
            return [None] * len(counts)
        starts = [sum(counts[:place]) for place in range(len(counts))]
        return [rows[start] for start in starts]


def _key(picture: torch.Tensor, grid: list[int] | None) -> bytes:
    """Return what tells a picture from every other: its pixels, their type, its grid."""
    pixels = picture.detach().contiguous().view(torch.uint8).cpu().numpy()
    shape = f"{picture.dtype} {tuple(picture.shape)} {grid}".encode()
    return hashlib.blake2b(pixels.data, digest_size=16, key=hashlib.sha256(shape).digest()).digest()


def _divided(output: Any, pictures: int) -> list[Features]:
    """Return the features of each picture, out of those of all, in memory of their own."""
    pooled = output.pooler_output
    sizes = [len(pooled[place]) for place in range(pictures)]
    layers = [pooled, *(getattr(output, "deepstack_features", None) or ())]
    # Version 5.17 gives a deepstack layer of all pictures as one tensor, later ones give a tuple.
    split = [
        torch.split(layer, sizes) if isinstance(layer, torch.Tensor) and depth else layer
        for depth, layer in enumerate(layers)
    ]
    return [tuple(layer[place].clone() for layer in split) for place in range(pictures)]


def _joined(output: Any, features: Sequence[Features]) -> Any:
    """Return the features of all pictures, in the form of an output that the model gave."""
    pooled, *stacked = zip(*features, strict=True)
    whole = isinstance(output.pooler_output, torch.Tensor)
    more: dict[str, Any] = {}
    if stacked:
        joined = isinstance(output.deepstack_features[0], torch.Tensor)
        more["deepstack_features"] = [torch.cat(layer) if joined else layer for layer in stacked]
    return type(output)(pooler_output=torch.stack(pooled) if whole else pooled, **more)
