"""Reads files of object boxes in any format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from json import JSONDecodeError
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from msgspec import Meta, Struct

from render_agent.errors import QuestionsError
from render_agent.scans.box_files.box_file import (
    BoxFile,
    Label,
    NamedBox,
    Number,
    Vector,
    box_of_corners,
    without_labels,
)
from render_agent.scans.box_files.data_sets import (
    read_arkitscenes,
    read_interior_gs,
    read_scannet,
    read_scannetpp,
)
from render_agent.scans.box_files.room_plan import is_room_plan, read_room_plan
from render_agent.scans.boxes import OrientedBox, rotation
from render_agent.scans.file_frame import Axis
from render_agent.scans.formats.cleaning import upright_turn
from render_agent.scans.instances import AGGREGATION_SUFFIX, segments_file
from render_agent.scans.scene import Scene
from render_agent.util.reasons import reason_of
from render_agent.util.safe_parse import Count, convert, parse_json, read_bounded
from render_agent.util.sanitize import is_plain

# Labels of data sets that are not objects: parts of the room, and marks of the annotators.
NOT_OBJECTS = frozenset({"wall", "floor", "ceiling", "remove", "split"})


class _Own(Struct):
    label: Label
    center: Vector | None = None
    size: Vector | None = None
    yaw: Number = 0.0
    corners: Annotated[list[Vector], Meta(min_length=8, max_length=8)] | None = None
    number: Count | None = None


def read_box_file(path: Path, scene: Scene, up: Axis) -> BoxFile:
    """Read a file of boxes; `up` is the axis about which `yaw` turns. Raises QuestionsError if it cannot be read."""
    try:
        file = _read(_parse(path), path, scene, up)
        if not file.objects:
            raise ValueError("it contains no boxes")
        # as names are read from questions
        objects = [replace(e, label=" ".join(e.label.lower().split())) for e in file.objects]
        if not all(entry.label and is_plain(entry.label) for entry in objects):
            raise ValueError("a label is empty or contains an invisible character")
        return replace(file, objects=objects)
    except (OSError, ValueError) as error:
        raise QuestionsError(
            f"cannot read the boxes in {path}: {reason_of(error)}. Correct the file, or pass another with --boxes."
        ) from error


def room_plan_file(scan: Path) -> Path | None:
    """Return the NAME.json next to a scan if it contains RoomPlan's JSON; otherwise None."""
    path = scan.with_suffix(".json")
    try:
        return path if path.is_file() and is_room_plan(_parse(path)) else None
    except (OSError, ValueError):
        return None


def box_file_parts(path: Path) -> list[Path]:
    """Return the files that are read with a file of boxes: itself and, for ScanNet, its segmentation."""
    is_scannet = path.name.endswith(AGGREGATION_SUFFIX) and segments_file(path).is_file()
    return [path, segments_file(path)] if is_scannet else [path]


def _parse(path: Path) -> Any:
    content = read_bounded(path)
    if not content.strip():
        raise ValueError("it is empty")
    try:
        return parse_json(content, parse_constant=_refuse_constant)
    except JSONDecodeError as error:
        raise ValueError(f"it is not valid JSON ({error})") from error


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"it contains {name}; all numbers must be finite")


def _read(data: Any, path: Path, scene: Scene, up: Axis) -> BoxFile:
    """Read the boxes in JSON data of any format. Raises ValueError if it is in none, or malformed."""
    if is_room_plan(data):
        return read_room_plan(data)
    if _every(data, *_Own.__struct_fields__) and not any("bounding_box" in entry for entry in data):
        return _read_own(data, up)
    if reader := next((read for is_kind, read in DATA_SETS if is_kind(data)), None):
        return without_labels(reader(data, path, scene), NOT_OBJECTS)
    raise ValueError("it is not in any format of docs/reference/boxes.md")


def _read_own(data: Any, up: Axis) -> BoxFile:
    """Read the program's own format. `yaw` is in degrees about the upward axis, counter-clockwise from above."""
    entries: list[_Own] = convert(data, list[_Own])
    refuse_repeated(entry.number for entry in entries)
    turn, objects = upright_turn(up), []
    for index, entry in enumerate(entries):
        if entry.corners is not None and entry.center is None and entry.size is None:
            box = box_of_corners(np.array(entry.corners, float))
        elif entry.corners is None and entry.center is not None and entry.size is not None:
            axes = (turn.T @ rotation(entry.yaw) @ turn).T
            box = OrientedBox(np.array(entry.center, float), np.array(entry.size, float), axes)
        else:
            raise ValueError(f"object {index} ({entry.label}) needs center and size, or corners")
        objects.append(NamedBox(entry.label, box))
    unused = sorted({name for entry in data for name in entry} - {*_Own.__struct_fields__})
    return BoxFile("boxes", objects, unused=(f"fields {', '.join(unused)}",) if unused else ())


def refuse_repeated(numbers: Iterable[int | None]) -> None:
    """Raise ValueError if two objects have the same number; None counts as no number."""
    counts = Counter(number for number in numbers if number is not None)
    if repeated := [str(number) for number, count in counts.items() if count > 1]:
        raise ValueError(f"several objects have the number {', '.join(repeated[:5])}")


def _every(data: Any, *keys: str) -> bool:
    """Return True if `data` is a list of objects that each have one of these fields."""
    return isinstance(data, list) and all(
        isinstance(entry, dict) and entry.keys() & set(keys) for entry in data
    )


def _all_in(data: Any, field: str, key: str) -> bool:
    return isinstance(data, dict) and field in data and _every(data[field], key)


# What recognises the format of each data set, and its reader.
DATA_SETS: list[tuple[Callable[[Any], bool], Callable[[Any, Path, Scene], BoxFile]]] = [
    (lambda data: _all_in(data, "data", "segments"), lambda data, *_: read_arkitscenes(data)),
    (lambda data: _all_in(data, "segGroups", "obb"), lambda data, *_: read_scannetpp(data)),
    (lambda data: _all_in(data, "segGroups", "segments"), lambda _, *scan: read_scannet(*scan)),
    (lambda data: _every(data, "label"), lambda data, *_: read_interior_gs(data)),
]
