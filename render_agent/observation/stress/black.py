"""`--pictures black`: what a dialogue comes to whose pictures show nothing."""

from __future__ import annotations

import numpy as np

from render_agent.observation.stress.base import Painted, PictureKeeper, PictureStress


class Black(PictureStress):
    """Every picture is black; the dialogue stays what it is."""

    note = "stress test: every picture is black (--pictures black)"
    faithful = False

    def painted(self, pictures: PictureKeeper, seed: int) -> PictureKeeper:
        """Return a keeper of black pictures."""
        return Painted(pictures, lambda file, picture: np.zeros_like(picture))
