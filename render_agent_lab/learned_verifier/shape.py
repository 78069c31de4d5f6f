"""The sizes of a member of the ensemble, and the features of a view and a question that fit them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent_lab.learned_verifier.history import NUMBERS


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a member; the defaults are those of a SigLIP2 ViT-L-16 of 384 × 384 pixels.

    rows, columns: the grid of image patches, row by row from the top left. text: tokens of the
    question. features: numbers of a patch or a token. width: of the embedding; `heads` divide it.
    blocks: cross-attention blocks of a pooling. history, action: moves, and numbers of a move.
    layers: of the action tower. inner: width inside a feed-forward. ValueError where it cannot be.
    """

    rows: int = 24
    columns: int = 24
    text: int = 64
    features: int = 1024
    width: int = 512
    heads: int = 8
    blocks: int = 4
    history: int = 10
    action: int = len(NUMBERS)
    layers: int = 4
    inner: int = 2048

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{field.name} is a whole number from 1 on, not {value!r}")
        if self.width % self.heads:
            raise ValueError(f"{self.heads} heads do not divide a width of {self.width}")
        if self.features % 4:
            raise ValueError(
                f"{self.features} features cannot hold sines and cosines of two directions:"
                " their number must be divisible by 4"
            )

    @property
    def patches(self) -> int:
        """The number of image patches."""
        return self.rows * self.columns

    def to_json(self) -> dict[str, int]:
        """Return the sizes by name."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Shape:
        """Return the shape that `to_json` wrote; ValueError where a size is missing or unknown."""
        names = {field.name for field in fields(cls)}
        if set(data) != names:
            odd = ", ".join(sorted(names ^ set(data)))
            raise ValueError(f"sizes are missing or unknown: {odd}")
        return cls(**data)


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """Features of one view and one question: patches (P, D) and text (T, D), float32.

    Padding of the text counts like its words, as it does for encoders of the SigLIP kind.
    """

    patches: NDArray[np.float32]
    text: NDArray[np.float32]

    def check(self, shape: Shape) -> None:
        """Raise ValueError where they do not fit a shape, or are not finite numbers."""
        wanted = {"patches": (shape.patches, shape.features), "text": (shape.text, shape.features)}
        for name, size in wanted.items():
            array = getattr(self, name)
            if array.shape != size or array.dtype != np.float32:
                raise ValueError(
                    f"{name} of {size} float32 are needed, not {array.shape} {array.dtype}"
                )
            if not np.isfinite(array).all():
                raise ValueError(f"{name} hold a number that is not finite")
