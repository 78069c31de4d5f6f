"""The content of a file of object boxes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Annotated

import numpy as np
from msgspec import Meta

from render_agent.scans.boxes import Array, OrientedBox
from render_agent.scans.file_frame import Axis

CORNER_TOLERANCE = 1e-3  # largest deviation from a cuboid, as a share of its diagonal
FLAT_METRES = 0.02  # thickness given to boxes that other programs describe as flat

Number = Annotated[float, Meta(ge=-1e9, le=1e9)]
Label = Annotated[str, Meta(min_length=1, max_length=200)]
Vector = tuple[Number, Number, Number]


@dataclass(frozen=True, eq=False)
class NamedBox:
    """An object: its label and its box."""

    label: str
    box: OrientedBox


@dataclass(frozen=True)
class BoxFrame:
    """The frame of a file of boxes."""

    up: Axis
    metres: float  # length of its unit in metres


@dataclass(frozen=True, eq=False)
class BoxFile:
    """The boxes in a file, in the file's unit and axes."""

    kind: str
    objects: list[NamedBox]
    frame: BoxFrame | None = None
    """The frame that the file's format defines; None for the frame of the scan file."""
    floors: tuple[Array, ...] = ()  # floor polygons, (k, 3) each
    unused: tuple[str, ...] = ()  # what the file declares and the program does not use


def without_labels(file: BoxFile, labels: frozenset[str]) -> BoxFile:
    """Return a file of boxes without objects of these labels, in lower case, which count as unused."""
    dropped = Counter(entry.label for entry in file.objects if entry.label.lower() in labels)
    objects = [entry for entry in file.objects if entry.label not in dropped]
    unused = (f"{count} {label}" for label, count in sorted(dropped.items()))
    return replace(file, objects=objects, unused=(*file.unused, *unused))


def thicken(size: Array) -> Array:
    """Return a size, (3,) metres, with a thickness if it is flat."""
    is_flat = np.sum(size > 0) == 2
    return np.where(is_flat & (size == 0), FLAT_METRES, size)


def box_of_corners(corners: Array) -> OrientedBox:
    """Return the box with eight corners, (8, 3), in any order. Raises ValueError if they are not those of a cuboid."""
    edges = corners[1:] - corners[0]
    diagonal = 2 * (corners.mean(0) - corners[0])
    tolerance = CORNER_TOLERANCE * max(float(np.linalg.norm(diagonal)), 1e-12)
    for numbers in combinations(range(7), 3):
        sides = edges[list(numbers)]
        lengths = np.linalg.norm(sides, axis=1)
        if np.abs(sides.sum(0) - diagonal).max() > tolerance or lengths.min() <= tolerance:
            continue
        axes = sides / lengths[:, None]
        if np.abs(axes @ axes.T - np.eye(3)).max() > 0.02:
            continue
        if np.linalg.det(axes) < 0:
            axes, lengths = axes[[1, 0, 2]], lengths[[1, 0, 2]]
        box = OrientedBox(corners.mean(0), lengths, axes)
        gaps = np.linalg.norm(box.corners[:, None] - corners, axis=2)
        if gaps.min(0).max() <= 2 * tolerance and gaps.min(1).max() <= 2 * tolerance:
            return box
    raise ValueError("eight corners are not those of a box with a size")
