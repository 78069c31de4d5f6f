"""What the ensemble learns from: a state, the moves that could be made there, and which were good."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from render_agent_lab.learned_verifier.history import Histories
from render_agent_lab.learned_verifier.shape import Features


@dataclass(frozen=True, slots=True, eq=False)
class Example:
    """One state with its candidates.

    features: of the view and the question; the same object where several states share both, so that
    it is read once. histories: N candidates. good: (N,) bool, one at least. ValueError where not so.
    """

    features: Features
    histories: Histories
    good: NDArray[np.bool_]

    def __post_init__(self) -> None:
        if self.good.shape != (len(self.histories),) or self.good.dtype != np.bool_:
            raise ValueError(
                f"{len(self.histories)} candidates need as many bools, not {self.good.shape}"
                f" {self.good.dtype}"
            )
        if not self.good.any():
            raise ValueError("a state without a good candidate teaches nothing: leave it out")

    @property
    def is_a_choice(self) -> bool:
        """Whether a candidate can be wrong here."""
        return not self.good.all()
