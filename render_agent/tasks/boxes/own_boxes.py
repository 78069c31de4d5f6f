"""Boxes of a user's scan: finds their file, places them in the scan's frame, and checks that they fit the scan."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from render_agent.errors import QuestionsError, SceneError
from render_agent.options import RunConfig
from render_agent.scans.box_files.box_file import BoxFrame, NamedBox
from render_agent.scans.box_files.reader import read_box_file, room_plan_file
from render_agent.scans.boxes import Array, OrientedBox
from render_agent.scans.file_frame import AUTO, METRES, UPRIGHT, AnyUnit, Axis, Up
from render_agent.scans.scene import Scene
from render_agent.tasks.boxes.annotations import is_annotation_file

logger = logging.getLogger(__name__)

SUFFIX = ".boxes.json"

MARGIN_METRES = 0.25  # boxes may extend this far beyond the scan, which is bounded without outliers
MAX_SPAN_RATIO = 4.0  # boxes that span more than this multiple of the scan are in another unit
MIN_SPAN_RATIO = 1 / 40  # so are boxes that span less than this
MAX_PLAN_GAP_METRES = 1.5  # a floor plan may end this far from the end of its scan
MIN_LIKELY_SPAN_RATIO = 0.1  # in a unit that is suggested, boxes span at least this


def own_box_file(scan: Path, config: RunConfig | None) -> Path | None:
    """Return the file of a scan's boxes: that of `--boxes`, or the one next to it; None if there is none."""
    if is_annotation_file(scan):
        return None
    if config is not None and config.boxes is not None:
        return Path(config.boxes)
    path = scan.with_name(f"{scan.stem}{SUFFIX}")
    return path if path.is_file() else room_plan_file(scan)


@dataclass(frozen=True, eq=False)
class OwnBoxes:
    """The content of a file of boxes, in metres, z up, in the frame of the scan file."""

    objects: tuple[NamedBox, ...] = ()
    floors: tuple[Array, ...] = ()
    """Floor polygons, (k, 2) each."""
    unused: tuple[str, ...] = ()
    """What the file declares and the program does not use."""

    @property
    def by_label(self) -> dict[str, list[OrientedBox]]:
        boxes: dict[str, list[OrientedBox]] = {}
        for entry in self.objects:
            boxes.setdefault(entry.label, []).append(entry.box)
        return boxes

    def warn_of_unused(self, path: Path) -> None:
        if self.unused:
            logger.warning("%s: not used: %s", path, ", ".join(self.unused))


def own_boxes(path: Path, scan: Path, config: RunConfig | None) -> OwnBoxes:
    """Return the boxes in a file of a scan. A scan that cannot be read has none.

    Raises QuestionsError if the file cannot be read or does not fit the scan.
    """
    up, unit = (AUTO, AUTO) if config is None else config.frame
    try:
        stamps = tuple((file, file.stat().st_mtime_ns) for file in (path, scan))
        return _load_boxes(stamps, (up, unit), _frame_of(config))
    except OSError as error:
        raise QuestionsError(f"cannot read the boxes in {path}: {error}") from error
    except SceneError:  # its questions fail with this error when they load the scan
        return OwnBoxes()


def _frame_of(config: RunConfig | None) -> tuple[Up, AnyUnit]:
    return (AUTO, AUTO) if config is None else (config.boxes_up, config.boxes_unit)


@lru_cache(maxsize=256)
def _load_boxes(
    # the file of boxes and the scan, with the times of their last change
    stamps: tuple[tuple[Path, int], ...],
    scan_frame: tuple[Up, AnyUnit],
    boxes_frame: tuple[Up, AnyUnit],
) -> OwnBoxes:
    from render_agent.scans.formats.load import load_scene

    (path, _), (scan, _) = stamps
    return place_boxes(path, load_scene(scan, None, *scan_frame), *boxes_frame)


def place_boxes(
    path: Path, scene: Scene, boxes_up: Up = AUTO, boxes_unit: AnyUnit = AUTO
) -> OwnBoxes:
    """Read a file of boxes, and place them in the frame of a scene's file. Raises QuestionsError if they do not fit."""
    from render_agent.scans.formats.axis_alignment import read_alignment
    from render_agent.scans.formats.cleaning import upright_turn

    scan = scene.source
    assert scan is not None
    file = read_box_file(path, scene, scene.frame.up if boxes_up == AUTO else boxes_up)
    declared = file.frame or BoxFrame(scene.frame.up, scene.frame.metres)
    up = declared.up if boxes_up == AUTO else boxes_up
    metres = declared.metres if boxes_unit == AUTO else METRES[boxes_unit]
    bounds = scene.bounds + np.array(scene.origin)
    alignment = read_alignment(scan)
    matrix = np.eye(4) if alignment is None else np.asarray(alignment, float)

    def to_scan(points: Array, up: Axis, metres: float) -> Array:
        turn = matrix[:3, :3] @ upright_turn(up)
        placed: Array = metres * points @ turn.T + matrix[:3, 3]
        return placed

    def place(up: Axis, metres: float) -> list[NamedBox]:
        turn = matrix[:3, :3] @ upright_turn(up)
        return [
            NamedBox(
                entry.label,
                OrientedBox(
                    to_scan(entry.box.centre, up, metres), entry.box.size * metres, entry.box.axes @ turn.T
                ),
            )
            for entry in file.objects
        ]  # fmt: skip

    objects = place(up, metres)
    _check_sizes(path, objects)
    is_scan_frame_open = file.frame is not None and scene.frame.asked[0] == AUTO
    if is_scan_frame_open and up != scene.frame.up and _outside(objects, bounds):
        raise QuestionsError(
            f"{path}: its boxes ({file.kind}, {up} up) are outside the scan, which was read with {scene.frame.up} up."
            f" Pass --up {up} if that is its axis."
        )
    _check_fit(path, place, up, metres, bounds)
    logger.info("%s: %d boxes (%s)", path, len(objects), file.kind)
    floors = tuple(to_scan(polygon, up, metres)[:, :2] for polygon in file.floors)
    if floors:
        corners = np.concatenate(floors)
        plan = np.stack([corners.min(0), corners.max(0)])
        if np.abs(plan - bounds[:, :2]).max() > MAX_PLAN_GAP_METRES:
            logger.warning(
                "%s: its floors extend from %s to %s m, the scan from %s to %s m. Check that both are of the same room.",
                path, *map(_numbers, (*plan, *bounds[:, :2])),
            )  # fmt: skip
    return OwnBoxes(tuple(objects), floors, file.unused)


def _check_fit(
    path: Path,
    place: Callable[[Axis, float], list[NamedBox]],  # places the boxes with an up axis and a unit
    up: Axis,
    metres: float,
    bounds: Array,
) -> None:
    """Raise QuestionsError if boxes do not fit the bounds of the scan, with the option that makes them fit."""
    objects = place(up, metres)
    outside = _outside(objects, bounds)
    spans = _span(objects), float((bounds[1] - bounds[0]).max())
    if not MIN_SPAN_RATIO < spans[0] / spans[1] < MAX_SPAN_RATIO:
        fitting = [
            unit
            for unit in METRES
            if not _outside(boxes := place(up, METRES[unit]), bounds)
            and _span(boxes) > MIN_LIKELY_SPAN_RATIO * spans[1]
        ]
        if not outside or (fitting and len(outside) > len(objects) / 2):
            advice = f"pass --boxes-unit {' or '.join(fitting)}" if fitting else "check its unit"
            raise QuestionsError(
                f"{path}: the boxes span {spans[0]:.4g} m, the scan {spans[1]:.4g} m: {advice}"
            )
    if outside:
        fitting_up = next((a for a in UPRIGHT if not _outside(place(a, metres), bounds)), None)
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


def _outside(objects: list[NamedBox], bounds: Array) -> list[NamedBox]:
    """Return the boxes outside bounds, or with a centre outside."""
    low_end, high_end = bounds[0] - MARGIN_METRES, bounds[1] + MARGIN_METRES

    def is_outside(box: OrientedBox) -> bool:
        low, high = box.bounds
        is_beside = (low > high_end) | (high < low_end)
        return bool((is_beside | (box.centre < low_end) | (box.centre > high_end)).any())

    return [entry for entry in objects if is_outside(entry.box)]


def _numbers(vector: Array) -> str:
    return "(" + ", ".join(f"{value:.4g}" for value in vector) + ")"
