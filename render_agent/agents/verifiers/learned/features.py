"""What a frozen encoder makes of one view and one question."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from render_agent.agents.verifiers.learned.shape import Shape


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
