"""Boxes of a user's scan: finds their file, places them in the scan's frame, and checks that they fit the scan."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from render_agent.errors import QuestionsError, SceneError
from render_agent.options import RunConfig
from render_agent.scans.annotation_rooms.annotations import is_annotation_file
from render_agent.scans.boxes import Array, OrientedBox
from render_agent.scans.file_frame import AUTO, METRES, UPRIGHT, AnyUnit, Axis, Up
from render_agent.tasks.box_files import BoxFrame, NamedBox, read_box_file, to_upright

logger = logging.getLogger(__name__)

SUFFIX = ".boxes.json"

MARGIN_METRES = 0.25  # boxes may extend this far beyond the scan, which is bounded without outliers
MAX_SPAN_RATIO = 4.0  # boxes that span more than this multiple of the scan are in another unit
MIN_SPAN_RATIO = 1 / 40  # so are boxes that span less than this
MIN_LIKELY_SPAN_RATIO = 0.1  # in a unit that is suggested, boxes span at least this


@dataclass(frozen=True)
class _Frames:
    """The options that determine the frames of a scan and of its boxes."""

    up: Up
    unit: AnyUnit
    boxes_up: Up
    boxes_unit: AnyUnit


def own_box_file(scan: Path, config: RunConfig | None) -> Path | None:
    """Return the file of a scan's boxes: that of `--boxes`, or NAME.boxes.json next to it; None if there is none."""
    if is_annotation_file(scan):
        return None
    if config is not None and config.boxes is not None:
        return Path(config.boxes)
    path = scan.with_name(f"{scan.stem}{SUFFIX}")
    return path if path.is_file() else None


def own_boxes(path: Path, scan: Path, config: RunConfig | None) -> dict[str, list[OrientedBox]]:
    """Return the boxes in a file by label, in metres, z up, in the frame of the scan file.

    Raises QuestionsError if the file cannot be read or does not fit the scan. A scan that cannot be read has no boxes.
    """
    boxes: dict[str, list[OrientedBox]] = {}
    for entry in _read(path, scan, config)[0]:
        boxes.setdefault(entry.label, []).append(entry.box)
    return boxes


def warn_of_unused(path: Path, scan: Path, config: RunConfig | None) -> None:
    """Log a warning of what a file of boxes declares and the program does not use. Raises QuestionsError."""
    if unused := _read(path, scan, config)[1]:
        logger.warning("%s: not used: %s", path, ", ".join(unused))


def _read(
    path: Path, scan: Path, config: RunConfig | None
) -> tuple[tuple[NamedBox, ...], tuple[str, ...]]:
    up, unit = (AUTO, AUTO) if config is None else config.frame
    boxes_up, boxes_unit = (AUTO, AUTO) if config is None else (config.boxes_up, config.boxes_unit)
    try:
        stamps = tuple((file, file.stat().st_mtime_ns) for file in (path, scan))
        return _placed_objects(stamps, _Frames(up, unit, boxes_up, boxes_unit))
    except OSError as error:
        raise QuestionsError(f"cannot read the boxes in {path}: {error}") from error
    except SceneError:  # its questions fail with this error when they load the scan
        return (), ()


@lru_cache(maxsize=256)
def _placed_objects(
    # the file of boxes and the scan, with the times of their last change
    stamps: tuple[tuple[Path, int], ...],
    frames: _Frames,
) -> tuple[tuple[NamedBox, ...], tuple[str, ...]]:
    """Return the boxes of a file, and what it declares and the program does not use."""
    from render_agent.scans.formats.axis_alignment import read_alignment
    from render_agent.scans.formats.cleaning import upright_turn
    from render_agent.scans.formats.load import load_scene

    (path, _), (scan, _) = stamps
    scene = load_scene(scan, up=frames.up, unit=frames.unit)
    up = scene.frame.up if frames.boxes_up == AUTO else frames.boxes_up
    file = read_box_file(path, scan, up)
    declared = file.frame or BoxFrame(scene.frame.up, scene.frame.metres)
    up = declared.up if frames.boxes_up == AUTO else frames.boxes_up
    metres = declared.metres if frames.boxes_unit == AUTO else METRES[frames.boxes_unit]
    bounds = scene.bounds + np.array(scene.origin)
    alignment = read_alignment(scan)
    matrix = np.eye(4) if alignment is None else np.asarray(alignment, float)

    def place(up: Axis, metres: float) -> list[NamedBox]:
        upright = (to_upright(entry, upright_turn(up), metres) for entry in file.objects)
        return [_align(entry, matrix) for entry in upright]

    objects = place(up, metres)
    _check_sizes(path, objects)
    spans = _span(objects), float((bounds[1] - bounds[0]).max())
    if not MIN_SPAN_RATIO < spans[0] / spans[1] < MAX_SPAN_RATIO:
        fitting = [
            unit
            for unit in METRES
            if _num_outside(boxes := place(up, METRES[unit]), bounds) == 0
            and _span(boxes) > MIN_LIKELY_SPAN_RATIO * spans[1]
        ]
        advice = f"pass --boxes-unit {' or '.join(fitting)}" if fitting else "check its unit"
        raise QuestionsError(
            f"{path}: the boxes span {spans[0]:.4g} m, the scan {spans[1]:.4g} m: {advice}"
        )
    if outside := [entry for entry in objects if _is_outside(entry.box, bounds)]:
        fitting_up = next((a for a in UPRIGHT if _num_outside(place(a, metres), bounds) == 0), None)
        first = outside[0]
        raise QuestionsError(
            f"{path}: {len(outside)} of {len(objects)} boxes are outside the scan, first {first.label} at"
            f" {_numbers(first.box.centre)} m; the scan extends from {_numbers(bounds[0])} to"
            f" {_numbers(bounds[1])} m (z up). "
            + (
                f"They fit with {fitting_up} up: pass --boxes-up {fitting_up}."
                if fitting_up is not None
                else "Correct the boxes, or pass the frame with --boxes-up and --boxes-unit."
            )
        )
    logger.info("%s: %d boxes (%s)", path, len(objects), file.kind)
    return tuple(objects), file.unused


def _align(entry: NamedBox, matrix: Array) -> NamedBox:
    """Return a box in the frame of ScanNet's axis alignment, (4, 4)."""
    turned = to_upright(entry, matrix[:3, :3], 1.0)
    box = turned.box
    return NamedBox(entry.label, OrientedBox(box.centre + matrix[:3, 3], box.size, box.axes))


def _check_sizes(path: Path, objects: list[NamedBox]) -> None:
    for index, entry in enumerate(objects):
        box = entry.box
        if not (box.size > 0).all():
            raise QuestionsError(
                f"{path}: object {index} ({entry.label}) has the size {_numbers(box.size)} m; every side must be positive"
            )
        if np.abs(box.axes @ box.axes.T - np.eye(3)).max() > 0.02:
            raise QuestionsError(
                f"{path}: the axes of object {index} ({entry.label}) are not perpendicular unit vectors"
            )


def _span(objects: list[NamedBox]) -> float:
    bounds = np.array([entry.box.bounds for entry in objects])
    return float((bounds[:, 1].max(0) - bounds[:, 0].min(0)).max())


def _is_outside(box: OrientedBox, bounds: Array) -> bool:
    low, high = box.bounds
    is_beside = (low > bounds[1] + MARGIN_METRES) | (high < bounds[0] - MARGIN_METRES)
    centre = np.clip(box.centre, bounds[0] - MARGIN_METRES, bounds[1] + MARGIN_METRES)
    return bool(is_beside.any() or (centre != box.centre).any())


def _num_outside(objects: list[NamedBox], bounds: Array) -> int:
    return sum(_is_outside(entry.box, bounds) for entry in objects)


def _numbers(vector: Array) -> str:
    return "(" + ", ".join(f"{value:.4g}" for value in vector) + ")"
