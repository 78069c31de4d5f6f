"""Perception labels: the object that each cell of an image shows, and its position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from render_agent.render.renderer import Frame
from render_agent.scans.boxes import OrientedBox
from render_agent.scans.camera import Camera, MapCamera
from render_agent.scans.scene import Scene
from render_agent.visibility.box_surfaces import BoxSurfaces
from training.phrases import LABELS

SIZE = (320, 240)  # width and height of rendered images in pixels

# Label cells across and down; the vision tower merges 4 x 4 of them into one token.
CELLS = (40, 28)

TARGETS = 5  # regression targets per cell: position (2) and longest dimension of its object, position of the cell (2)

MAP_HEIGHT_METRES = 100.0  # metres above the map, high enough for parallel rays

Scalar = TypeVar("Scalar", bound=np.generic)


@dataclass(frozen=True, eq=False)
class CellLabels:
    """Labels of the cells of an image."""

    classes: NDArray[np.uint8]  # (28, 40) uint8, 0 for no object, k for LABELS[k - 1]
    targets: NDArray[np.float16]
    """(28, 40, 5) float16 in metres, NaN if undefined. Maps use their own frame (x, y); other views use ahead
    and left of the camera, levelled.
    """
    pixels: NDArray[np.int64]  # (boxes,) number of pixels that show each box


class CellLabeller:
    """Computes the labels of images of one scene."""

    def __init__(self, scene: Scene, boxes: Sequence[OrientedBox], names: Sequence[str]) -> None:
        self.surfaces = BoxSurfaces.of(scene, boxes)
        self.classes = np.array([LABELS.index(name) + 1 for name in names], np.uint8)
        self.centres = np.array([box.centre for box in boxes])
        self.longest = np.array([float(box.size.max()) for box in boxes])
        self.volumes = np.array([float(box.size.prod()) for box in boxes])

    def of_map(self, frame: Frame, camera: MapCamera) -> CellLabels:
        """Return the labels of a map."""
        height, width = frame.depth.shape
        eye = (*camera.centre, MAP_HEIGHT_METRES)
        u, v = np.meshgrid(np.arange(width) + 0.5, np.arange(height) + 0.5)
        x = camera.centre[0] + (u - width / 2) * camera.metres_per_pixel
        y = camera.centre[1] - (v - height / 2) * camera.metres_per_pixel
        return self._make_labels(self._objects(frame, eye), self.centres[:, :2], x, y)

    def of_view(self, frame: Frame, camera: Camera, ahead: Camera) -> CellLabels:
        """Return the labels of a camera view, in the frame of the camera `ahead`."""
        height, width = frame.depth.shape
        focal = camera.focal(height)
        u, v = np.meshgrid(np.arange(width) + 0.5, np.arange(height) + 0.5)
        depth = np.where(np.isfinite(frame.depth), frame.depth, np.nan)
        local = np.stack(
            [(u - width / 2) / focal * depth, (v - height / 2) / focal * depth, depth], axis=-1
        )
        world = local @ camera.pose[:3, :3].T
        level = replace(ahead, pitch=0.0).pose
        ahead_left = world @ level[:3, [2, 0]] * (1, -1)
        centres = (self.centres - np.array(ahead.position)) @ level[:3, [2, 0]] * (1, -1)
        return self._make_labels(
            self._objects(frame, camera.position), centres, ahead_left[..., 0], ahead_left[..., 1]
        )

    def _objects(self, frame: Frame, eye: tuple[float, float, float]) -> NDArray[np.int32]:
        """Return the index of the box that each pixel shows, -1 for none."""
        assert frame.primitive is not None
        counts = self.surfaces.seen_from(eye)
        if not counts.shape[1]:
            return np.full(frame.depth.shape, -1, np.int32)
        smallest = np.where(counts, self.volumes, np.inf).argmin(axis=1)
        numbers = np.where(counts.any(axis=1), smallest, -1).astype(np.int32)
        return numbers[self.surfaces.groups[frame.primitive]]

    def _make_labels(
        self,
        objects: NDArray[np.int32],
        centres: NDArray[np.float64],
        x: NDArray[np.float64],
        y: NDArray[np.float64],
    ) -> CellLabels:
        cells = _most_frequent(objects)
        classes = np.concatenate([self.classes, [0]]).astype(np.uint8)[cells]
        places = np.concatenate([centres, [[np.nan, np.nan]]])[cells]
        longest = np.concatenate([self.longest, [np.nan]])[cells]
        positions = np.stack([_sample(x, 1)[0], _sample(y, 1)[0]], axis=-1)
        targets = np.concatenate([places, longest[..., None], positions], axis=-1)
        pixels = np.bincount(objects[objects >= 0], minlength=len(self.classes))
        return CellLabels(classes, targets.astype(np.float16), pixels)


def join_directions(parts: Sequence[CellLabels]) -> CellLabels:
    """Combine the labels of four directions into those of an around image: ahead, right; left, behind."""

    def tile(field: str) -> NDArray[Any]:
        ahead, right, left, behind = (getattr(part, field)[::2, ::2] for part in parts)
        return np.concatenate(
            [np.concatenate([ahead, right], 1), np.concatenate([left, behind], 1)], 0
        )

    return CellLabels(
        tile("classes"), tile("targets"), np.sum([part.pixels for part in parts], axis=0)
    )


def _sample(pixels: NDArray[Scalar], per_axis: int) -> NDArray[Scalar]:
    """Sample `per_axis` x `per_axis` pixels of every cell, (per_axis ** 2, 28, 40)."""
    height, width = pixels.shape
    rows = ((np.arange(CELLS[1] * per_axis) + 0.5) * height / (CELLS[1] * per_axis)).astype(int)
    columns = ((np.arange(CELLS[0] * per_axis) + 0.5) * width / (CELLS[0] * per_axis)).astype(int)
    samples = pixels[np.ix_(rows, columns)].reshape(CELLS[1], per_axis, CELLS[0], per_axis)
    return samples.transpose(1, 3, 0, 2).reshape(per_axis * per_axis, CELLS[1], CELLS[0])


def _most_frequent(objects: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the object that most samples of a cell show, slightly favouring objects over none."""
    samples = _sample(objects, 3)
    votes = (samples[:, None] == samples[None]).sum(axis=1) + 2.0 * (samples >= 0)
    best = votes.argmax(axis=0)
    winners: NDArray[np.int32] = np.take_along_axis(samples, best[None], axis=0)[0]
    return winners
