"""Sizes of an ensemble member, and the features that fit them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent_lab.learned_verifier.history import NUMBERS


@dataclass(frozen=True, slots=True)
class VerifierShape:
    """Sizes of an ensemble member. The defaults fit SigLIP2 ViT-L-16 at 384 x 384 pixels."""

    rows: int = 24  # rows of the patch grid, from the top left in row-major order
    columns: int = 24
    text: int = 64  # tokens per question
    features: int = 1024  # feature dimension of patches and tokens, divisible by 4
    width: int = 512
    heads: int = 8
    blocks: int = 4  # cross-attention blocks per pooling
    history: int = 10  # moves per history
    action: int = len(NUMBERS)  # numbers per move
    layers: int = 4
    inner: int = 2048

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{field.name} must be a positive integer, not {value!r}")
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is not divisible by {self.heads} heads")
        if self.features % 4:
            raise ValueError(
                f"features must be divisible by 4 for sines and cosines of two axes, not {self.features}"
            )

    @property
    def patches(self) -> int:
        """The number of image patches."""
        return self.rows * self.columns

    def to_json(self) -> dict[str, int]:
        """Return the sizes by name."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> VerifierShape:
        """Return the shape written by `to_json`. Raises ValueError if a size is missing or unknown."""
        names = {field.name for field in fields(cls)}
        if set(data) != names:
            wrong_names = ", ".join(sorted(names ^ set(data)))
            raise ValueError(f"missing or unknown sizes: {wrong_names}")
        return cls(**data)


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """Features of one view and one question: patches (P, D) and text (T, D), float32.

    Text padding counts like words, as in SigLIP encoders.
    """

    patches: NDArray[np.float32]
    text: NDArray[np.float32]

    def check(self, shape: VerifierShape) -> None:
        """Raise ValueError if the features do not fit a shape or are not finite."""
        expected_sizes = {
            "patches": (shape.patches, shape.features),
            "text": (shape.text, shape.features),
        }
        for name, size in expected_sizes.items():
            array = getattr(self, name)
            if array.shape != size or array.dtype != np.float32:
                raise ValueError(
                    f"expected {name} of shape {size} float32, not {array.shape} {array.dtype}"
                )
            if not np.isfinite(array).all():
                raise ValueError(f"{name} contain a non-finite number")
