"""Points all over the surface of a scene, close enough together to keep a distance from it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from render_agent.scene.free_space.surface import FACES_PER_CHUNK, cut, longest_edges, one_each
from render_agent.scene.model import Scene

SPACING_METRES = 0.08
"""Metres: no edge of a piece of surface is longer, and its corners are samples. A place 0.2 m away
from a face or from its edge is then at most 0.205 m away from a sample."""

CELL_METRES = 0.01
"""Metres: of the samples in one such cell one is kept."""

MAX_SAMPLES = 2_000_000
"""Samples; of a scene that needs more, the spacing and the cells grow until it needs fewer."""

COARSER_FACTOR = 1.5

MARGIN_METRES = 0.5
"""Metres: surface further than this outside of the bounds is out of reach."""


def surface_samples(scene: Scene, most: int = MAX_SAMPLES) -> NDArray[np.float32]:
    """Return samples of the surface within reach, (s, 3) metres; none where it is all outside."""
    box = scene.bounds + np.array([[-MARGIN_METRES], [MARGIN_METRES]])
    spacing, cell = SPACING_METRES, CELL_METRES
    while True:
        samples = _spread(scene, box, spacing, 2 * most)
        if samples is not None:
            samples = samples[one_each(samples, cell)]
            if len(samples) <= most:
                return samples
        spacing *= COARSER_FACTOR
        cell *= COARSER_FACTOR


def _spread(
    scene: Scene, box: NDArray[np.float64], spacing: float, most: int
) -> NDArray[np.float32] | None:
    """Return the vertices of all pieces in the box, (s, 3), or None where there are too many.

    Vertices that two faces share may be there twice.
    """
    points, faces = scene.points, scene.faces
    inside = ((points >= box[0]) & (points <= box[1])).all(axis=1)
    if faces is None:
        samples: NDArray[np.float32] = points[inside]
        return samples
    used = np.zeros(len(points), bool)
    used[faces] = True
    parts, count = [points[used & inside]], 0
    for first in range(0, len(faces), FACES_PER_CHUNK):
        corners = points[faces[first : first + FACES_PER_CHUNK]]
        pieces = cut(
            corners[longest_edges(corners)[0] > spacing],
            spacing,
            most - count,
            None if inside.all() else box,
        )
        if pieces is None:
            return None
        count += len(pieces.corners)
        parts.append(pieces.new)
    samples = np.concatenate(parts)
    kept: NDArray[np.float32] = samples[((samples >= box[0]) & (samples <= box[1])).all(axis=1)]
    return kept
