"""Points all over the surface of a scene, close enough together to keep a distance from it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from render_agent.scene.model import Scene
from render_agent.scene.surface import CHUNK, cut, longest_edges, one_each

SPACING = 0.04
"""Metres: no edge of a piece of surface is longer, so no point of it is further than 0.024 m away
from a sample."""

CELL = 0.01
"""Metres: of the samples in one such cell one is kept."""

MOST = 2_000_000
"""Samples; of a scene that needs more, the spacing and the cells grow until it needs fewer."""

COARSER = 1.5

MARGIN = 0.5
"""Metres: surface further than this outside of the bounds is out of reach."""


def surface_samples(scene: Scene, most: int = MOST) -> NDArray[np.float32]:
    """Return samples of the surface within reach, (s, 3) metres; none where it is all outside."""
    box = scene.bounds + np.array([[-MARGIN], [MARGIN]])
    spacing, cell = SPACING, CELL
    while True:
        samples = _spread(scene, box, spacing, 8 * most)
        if samples is not None:
            samples = samples[one_each(samples, cell)]
            if len(samples) <= most:
                return samples
        spacing *= COARSER
        cell *= COARSER


def _spread(
    scene: Scene, box: NDArray[np.float64], spacing: float, most: int
) -> NDArray[np.float32] | None:
    """Return the vertices of all pieces in the box, (s, 3), or None where there are too many."""
    points, faces = scene.points, scene.faces
    inside = ((points >= box[0]) & (points <= box[1])).all(axis=1)
    if faces is None:
        return points[inside]
    used = np.zeros(len(points), bool)
    used[faces] = True
    parts, count = [points[used & inside]], 0
    for first in range(0, len(faces), CHUNK):
        corners = points[faces[first : first + CHUNK]]
        found = cut(corners[longest_edges(corners)[0] > spacing], spacing, most - count, box)
        if found is None:
            return None
        count += len(found[0])
        vertices = found[0].reshape(-1, 3)
        parts.append(vertices[one_each(vertices, spacing / 100)])
    samples = np.concatenate(parts)
    return samples[((samples >= box[0]) & (samples <= box[1])).all(axis=1)]
