"""Annotated boxes on a real mesh: the shift that puts them there, and whether it can be believed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from render_agent.scene.model import Scene
from render_agent.scene.stand_in.annotations import BoxedObject, SceneAnnotation

if TYPE_CHECKING:
    from scipy.spatial import cKDTree

FloatArray = NDArray[np.float64]

MAX_POINTS = 300_000
"""Of more vertices every k-th is looked at."""

MIN_POINTS_INSIDE = 8
SPREAD = 0.8
"""A box fits where it holds MIN_POINTS_INSIDE vertices that reach over SPREAD of it along each of its axes."""

MIN_SHARE = 0.8
MIN_LEAD = 0.3
"""A shift is believed where MIN_SHARE of the boxes fit, and MIN_LEAD more than elsewhere."""

ELSEWHERE = 0.7
"""Metres: boxes moved so far along the floor should no longer fit."""

FLOOR_METRES = 0.05
"""Metres: vertices that are no higher above the floor would fill any box that stands on it."""

SLACK_METRES = 0.02
"""Metres that a vertex may lie outside of its box."""


@dataclass(frozen=True, eq=False)
class BoxFit:
    """How well annotated boxes fit a mesh when they are moved by `offset`, (3,) metres.

    share: of the boxes that fit there. elsewhere: of the boxes that fit when moved away from there,
    in the mean over eight directions.
    """

    offset: FloatArray
    share: float
    elsewhere: float

    @property
    def passed(self) -> bool:
        """Whether the boxes may be used on this mesh."""
        return self.share >= MIN_SHARE and self.share - self.elsewhere >= MIN_LEAD


def fit_boxes(scene: Scene, annotation: SceneAnnotation) -> BoxFit | None:
    """Return the better of the two shifts that the annotations may need, None without boxes.

    ARKitScenes' and ScanNet++'s boxes lie in the frame of their meshes: no shift. ScanNet's look as
    if they lay about the mean of the aligned vertices. UNVERIFIED: this was never tried on a mesh of
    ScanNet's; use boxes on a mesh only where the fit has `passed`.
    """
    from scipy.spatial import cKDTree

    if not annotation.objects:
        return None
    points = scene.points.astype(np.float64)
    above = points[points[:, 2] > scene.floor + FLOOR_METRES]
    tree = cKDTree(above[:: len(above) // MAX_POINTS + 1])
    shifts = (-np.array(scene.origin), points.mean(axis=0))
    shares = [_share(tree, annotation.objects, shift) for shift in shifts]
    best = int(np.argmax(shares))
    away = [
        _share(tree, annotation.objects, shifts[best] + ELSEWHERE * np.array([x, y, 0.0]))
        for x in (-1, 0, 1)
        for y in (-1, 0, 1)
        if x or y
    ]
    return BoxFit(shifts[best], shares[best], float(np.mean(away)))


def _share(tree: cKDTree, things: tuple[BoxedObject, ...], shift: FloatArray) -> float:
    return sum(_fits(tree, thing, shift) for thing in things) / len(things)


def _fits(tree: cKDTree, thing: BoxedObject, shift: FloatArray) -> bool:
    centre = thing.centre + shift
    reach = float(np.linalg.norm(thing.size / 2 + SLACK_METRES))
    near = tree.data[tree.query_ball_point(centre, reach)]
    local = (near - centre) @ thing.axes.T
    inside = local[(np.abs(local) <= thing.size / 2 + SLACK_METRES).all(axis=1)]
    if len(inside) < MIN_POINTS_INSIDE:
        return False
    reached = np.ptp(inside, axis=0) >= SPREAD * thing.size - 2 * SLACK_METRES
    return bool(reached.all())
