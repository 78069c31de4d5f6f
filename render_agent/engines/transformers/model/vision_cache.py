"""Caches the vision features of images for later turns of a question."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from inspect import signature
from typing import Any, TypeAlias

import torch

from render_agent.engines.byte_cache import ByteCache
from render_agent.engines.families.images import Tensors

MAX_CACHE_BYTES = 2**30  # a view takes about 10 MB for an 8B Qwen3-VL in bfloat16

Features: TypeAlias = "tuple[torch.Tensor, ...]"
"""Output of the vision tower for one image or tile: the pooled features, then one tensor per deepstack layer."""


class VisionCache:
    """Wraps a model's `get_image_features` and computes only the features of new images.

    Images are identified by their pixels, so an image that occurs in several questions is computed once. Supports models
    with a grid per image (Qwen-VL) and models with one or more tiles per image (InternVL, Gemma 3). The cache, `entries`,
    is on the model's device.
    """

    def __init__(
        self,
        model: Any,
        limit: int = MAX_CACHE_BYTES,  # size of the cache in bytes
    ) -> None:
        self.entries: ByteCache[Features] = ByteCache(limit)
        self._inner = model.model
        self._original = vars(self._inner).get("get_image_features")
        self._compute = self._inner.get_image_features
        self._owners: list[tuple[str, int]] = []
        self._last_output: Any = None
        self._inner.get_image_features = self._features

    @contextmanager
    def owned_by(self, owners: Sequence[tuple[str, int]]) -> Iterator[None]:
        """Declare the question and the number of rows of `pixel_values` for each row of a batch in model calls.

        Images of other calls have no owner and are evicted first.
        """
        self._owners = list(owners)
        try:
            yield
        finally:
            self._owners = []

    @contextmanager
    def bypassed(self) -> Iterator[None]:
        """Let the model compute the features of all images."""
        self._inner.get_image_features = self._compute
        try:
            yield
        finally:
            self._inner.get_image_features = self._features

    def retire(self, dialogue_id: str) -> None:
        """Drop the features of images that no other question uses."""
        self.entries.retire(dialogue_id)

    def close(self) -> None:
        """Restore the model's method and release the memory."""
        del self._inner.get_image_features
        if self._original is not None:
            self._inner.get_image_features = self._original
        self.entries.clear()

    def _features(
        self, pixel_values: torch.Tensor, image_grid_thw: torch.Tensor | None = None, **more: Any
    ) -> Any:
        """Return the same as the model's own method for the same arguments."""
        counts = [1] * len(pixel_values)
        if image_grid_thw is not None:
            counts = image_grid_thw.prod(-1).tolist()
        images = torch.split(pixel_values, counts)
        grids = [None] * len(counts) if image_grid_thw is None else image_grid_thw.tolist()
        keys = [_key(*entry) for entry in zip(images, grids, strict=True)]
        owners = self._image_owners(counts)
        by_key = {key: self.entries.get(key) for key in dict.fromkeys(keys)}
        missing = [keys.index(key) for key, features in by_key.items() if features is None]
        if missing:
            grid = {} if image_grid_thw is None else {"image_grid_thw": image_grid_thw[missing]}
            # Stored as a template for the output of calls in which all images are cached.
            self._last_output = self._compute(
                torch.cat([images[index] for index in missing]), **grid, **more
            )
            for index, features in zip(
                missing, _split(self._last_output, len(missing)), strict=True
            ):
                by_key[keys[index]] = features
        all_features = [cached for key in keys if (cached := by_key[key]) is not None]
        for key, owner, features in zip(keys, owners, all_features, strict=True):
            if not self.entries.own(key, owner):
                self.entries.put(key, features, sum(layer.nbytes for layer in features), owner)
        return _merge(self._last_output, all_features)

    def _image_owners(self, counts: Sequence[int]) -> list[str | None]:
        """Return the owner of each image; None for all if the declared owners do not match the images."""
        rows = [question for question, number in self._owners for _ in range(number)]
        if len(rows) != sum(counts):
            return [None] * len(counts)
        starts = [sum(counts[:index]) for index in range(len(counts))]
        return [rows[start] for start in starts]


@contextmanager
def one_image_per_call(model: Any, images: Sequence[Tensors]) -> Iterator[None]:
    """Compute the features of every image in a separate call, whose shape depends only on the image."""
    inner = model.model
    original, compute = vars(inner).get("get_image_features"), inner.get_image_features
    parameters = signature(compute)

    def features(*args: Any, **more: Any) -> Any:
        given = parameters.bind(*args, **more).arguments
        given |= given.pop("kwargs", {})
        outputs = [
            compute(**given | {name: image[name] for name in given if name in image})
            for image in images
        ]
        fields = {name: [output[name] for output in outputs] for name in outputs[0]}
        fields.pop(
            "last_hidden_state", None
        )  # not used with the features, and its shapes may differ
        layers = [_join(layer) for layer in zip(*fields.pop("deepstack_features", ()), strict=True)]
        joined = {name: _join(parts) for name, parts in fields.items()}
        return type(outputs[0])(**joined | ({"deepstack_features": layers} if layers else {}))

    inner.get_image_features = features
    try:
        yield
    finally:
        del inner.get_image_features
        if original is not None:
            inner.get_image_features = original


def _join(parts: Sequence[Any]) -> Any:
    """Join the features of several calls: one tensor, or one per image."""
    if isinstance(parts[0], torch.Tensor):
        return torch.cat(list(parts))
    return [image for part in parts for image in part]


def _key(image: torch.Tensor, grid: list[int] | None) -> bytes:
    """Return a digest of an image's pixels, dtype, shape and grid."""
    pixels = image.detach().contiguous().view(torch.uint8).cpu().numpy()
    shape = f"{image.dtype} {tuple(image.shape)} {grid}".encode()
    return hashlib.blake2b(pixels.data, digest_size=16, key=hashlib.sha256(shape).digest()).digest()


def _split(output: Any, num_images: int) -> list[Features]:
    """Split the output of the vision tower into copies of the features of each image."""
    pooled = output.pooler_output
    sizes = [len(pooled[index]) for index in range(num_images)]
    layers = [pooled, *(getattr(output, "deepstack_features", None) or ())]
    # transformers 5.17 returns a deepstack layer as one tensor for all images, later versions as a tuple.
    split = [
        torch.split(layer, sizes) if isinstance(layer, torch.Tensor) and depth else layer
        for depth, layer in enumerate(layers)
    ]
    return [tuple(layer[index].clone() for layer in split) for index in range(num_images)]


def _merge(template: Any, features: Sequence[Features]) -> Any:
    """Merge the features of all images into an output of the same form as `template`."""
    pooled, *stacked = zip(*features, strict=True)
    is_tensor = isinstance(template.pooler_output, torch.Tensor)
    more: dict[str, Any] = {}
    if stacked:
        joined = isinstance(template.deepstack_features[0], torch.Tensor)
        more["deepstack_features"] = [torch.cat(layer) if joined else layer for layer in stacked]
    return type(template)(pooler_output=torch.stack(pooled) if is_tensor else pooled, **more)
