"""Files of object boxes from other programs and from people, recognised by content; docs/reference/boxes.md lists them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from msgspec import Meta, Struct

from render_agent.errors import QuestionsError
from render_agent.scans.boxes import Array, OrientedBox, rotation
from render_agent.scans.file_frame import Axis
from render_agent.scans.instances import (
    AGGREGATION_SUFFIX,
    MESH_SUFFIX,
    read_groups,
    segments_file,
)
from render_agent.util.safe_parse import Count, convert, parse_json, read_bounded
from render_agent.util.sanitize import is_plain

CORNER_TOLERANCE = 1e-3  # largest deviation from a cuboid, as a share of its diagonal

Number = Annotated[float, Meta(ge=-1e9, le=1e9)]
Label = Annotated[str, Meta(min_length=1, max_length=200)]
Vector = tuple[Number, Number, Number]
Nine = Annotated[list[Number], Meta(min_length=9, max_length=9)]
Sixteen = Annotated[list[Number], Meta(min_length=16, max_length=16)]


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
    unused: tuple[str, ...] = ()
    """What the file declares and the program does not use."""


class _Corner(Struct):
    x: Number
    y: Number
    z: Number


class _Own(Struct):
    label: Label
    center: Vector | None = None
    size: Vector | None = None
    yaw: Number = 0.0
    corners: Annotated[list[Vector], Meta(min_length=8, max_length=8)] | None = None
    number: Count | None = None


class _Element(Struct):
    """An element of RoomPlan's CapturedRoom."""

    dimensions: Vector
    transform: Sixteen
    category: dict[str, Any]


class _CapturedRoom(Struct):
    objects: list[_Element]
    doors: list[_Element] = []
    windows: list[_Element] = []


class _Instance(Struct):
    """An instance of InteriorGS."""

    label: Label
    bounding_box: Annotated[list[_Corner], Meta(min_length=8, max_length=8)] | None = None


class _Obb(Struct):
    centroid: Vector
    axesLengths: Vector
    normalizedAxes: Nine


class _Group(Struct):
    label: Label
    obb: _Obb


class _Annotation(Struct):
    segGroups: list[_Group]


class _Aligned(Struct):
    obbAligned: _Obb


class _Detection(Struct):
    label: Label
    segments: _Aligned


class _Detections(Struct):
    data: list[_Detection]


def read_box_file(path: Path, scan: Path, up: Axis) -> BoxFile:
    """Read a file of boxes; `up` is the axis about which `yaw` turns. Raises QuestionsError if it cannot be read."""
    try:
        data = parse_json(read_bounded(path))
        reader = next((reader for is_kind, reader in READERS if is_kind(data)), None)
        if reader is None:
            raise ValueError("it is not in any format of docs/reference/boxes.md")
        file = reader(data, path, scan, up)
        if not file.objects:
            raise ValueError("it contains no boxes")
        if not all(is_plain(entry.label) for entry in file.objects):
            raise ValueError("a label contains an invisible character")
        return file
    except (OSError, ValueError) as error:
        raise QuestionsError(
            f"cannot read the boxes in {path}: {error}. Correct the file, or pass another with --boxes."
        ) from error


def box_file_parts(path: Path) -> list[Path]:
    """Return the files that are read with a file of boxes: itself and, for ScanNet, its segmentation."""
    is_scannet = path.name.endswith(AGGREGATION_SUFFIX) and segments_file(path).is_file()
    return [path, segments_file(path)] if is_scannet else [path]


def _read_own(data: Any, path: Path, scan: Path, up: Axis) -> BoxFile:
    """Read the program's own format. `yaw` is in degrees about the upward axis, counter-clockwise from above."""
    from render_agent.scans.formats.cleaning import upright_turn

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


def refuse_repeated(numbers: Any) -> None:
    """Raise ValueError if two objects have the same number; None counts as no number."""
    counts = Counter(number for number in numbers if number is not None)
    if repeated := [str(number) for number, count in counts.items() if count > 1]:
        raise ValueError(f"several objects have the number {', '.join(repeated[:5])}")


def _read_room_plan(data: Any, path: Path, scan: Path, up: Axis) -> BoxFile:
    """Read Apple RoomPlan's CapturedRoom: y up, metres, transforms in column-major order."""
    room: _CapturedRoom = convert(data, _CapturedRoom)
    elements = [(next(iter(e.category), ""), e) for e in room.objects]
    elements += [("door", e) for e in room.doors] + [("window", e) for e in room.windows]
    objects = []
    for name, element in elements:
        matrix = np.array(element.transform, float).reshape(4, 4)  # rows are the columns
        size = np.array(element.dimensions, float)
        if name in ("door", "window"):  # surfaces without thickness
            size = np.maximum(size, SURFACE_METRES)
        objects.append(NamedBox(_words(name), OrientedBox(matrix[3, :3], size, matrix[:3, :3])))
    used = {"objects", "doors", "windows"}
    unused = tuple(
        f"{len(part)} {name}" for name, part in data.items() if name not in used and isinstance(part, list) and part
    )  # fmt: skip
    return BoxFile("RoomPlan", objects, BoxFrame("y", 1.0), unused)


def _words(name: str) -> str:
    """Return a name in camel case as words, such as "washer dryer"."""
    return "".join(f" {c.lower()}" if c.isupper() else c for c in name).strip()


def _read_interior_gs(data: Any, path: Path, scan: Path, up: Axis) -> BoxFile:
    """Read InteriorGS's labels.json: z up, metres, eight corners per instance."""
    instances: list[_Instance] = convert(data, list[_Instance])
    objects = [
        NamedBox(entry.label, box_of_corners(np.array([(c.x, c.y, c.z) for c in entry.bounding_box])))
        for entry in instances
        if entry.bounding_box is not None
    ]  # fmt: skip
    missing = len(instances) - len(objects)
    unused = (f"{missing} instances without a box",) if missing else ()
    return BoxFile("InteriorGS", objects, BoxFrame("z", 1.0), unused)


def _read_scannetpp(data: Any, path: Path, scan: Path, up: Axis) -> BoxFile:
    annotation: _Annotation = convert(data, _Annotation)
    return BoxFile("ScanNet++", [NamedBox(g.label, _of_obb(g.obb)) for g in annotation.segGroups])


def _read_arkitscenes(data: Any, path: Path, scan: Path, up: Axis) -> BoxFile:
    detections: _Detections = convert(data, _Detections)
    objects = [NamedBox(_spaced(d.label), _of_obb(d.segments.obbAligned)) for d in detections.data]
    return BoxFile("ARKitScenes", objects)


def _read_scannet(data: Any, path: Path, scan: Path, up: Axis) -> BoxFile:
    """Compute the boxes of ScanNet's segments, parallel to the aligned axes, from the vertices of its mesh."""
    from render_agent.scans.formats.axis_alignment import read_alignment
    from render_agent.scans.formats.load import read_scan

    if not scan.name.endswith(MESH_SUFFIX):
        raise ValueError(f"ScanNet's segments belong to a mesh named SCENE{MESH_SUFFIX}")
    points, alignment = read_scan(scan).points, read_alignment(scan)
    matrix = np.eye(4) if alignment is None else np.asarray(alignment, float)
    turn, shift = matrix[:3, :3], matrix[:3, 3]
    points = points @ turn.T + shift
    objects = []
    for label, vertices in read_groups(path, len(points)):
        if not len(vertices):
            raise ValueError(f"the segments of {label} have no vertices")
        low, high = points[vertices].min(0), points[vertices].max(0)
        centre = ((low + high) / 2 - shift) @ turn  # back in the frame of the file
        objects.append(NamedBox(label, OrientedBox(centre, high - low, turn)))
    return BoxFile("ScanNet", objects)


def _spaced(label: str) -> str:
    return label.replace("_", " ")


def _of_obb(obb: _Obb) -> OrientedBox:
    axes = np.array(obb.normalizedAxes, float).reshape(3, 3)
    return OrientedBox(np.array(obb.centroid, float), np.array(obb.axesLengths, float), axes)


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


def to_upright(named: NamedBox, turn: Array, metres: float) -> NamedBox:
    """Return a box after scaling it to metres and rotating it by `turn`, (3, 3)."""
    box = named.box
    moved = OrientedBox(turn @ box.centre * metres, box.size * metres, box.axes @ turn.T)
    return replace(named, box=moved)


def _entries(data: Any) -> Sequence[Any]:
    return data if isinstance(data, list) else []


def _has(data: Any, key: str) -> bool:
    return isinstance(data, dict) and key in data


def _every(data: Any, key: str) -> bool:
    return bool(_entries(data)) and all(_has(entry, key) for entry in _entries(data))


SURFACE_METRES = 0.02  # thickness given to doors and windows, which RoomPlan describes as flat

_Reader = Callable[[Any, Path, Path, Axis], BoxFile]

# What recognises each format, and its reader.
READERS: list[tuple[Callable[[Any], bool], _Reader]] = [
    (lambda data: _has(data, "objects") and _has(data, "walls"), _read_room_plan),
    (lambda data: _has(data, "data") and _every(data["data"], "segments"), _read_arkitscenes),
    (lambda data: _has(data, "segGroups") and _every(data["segGroups"], "obb"), _read_scannetpp),
    (lambda data: _has(data, "segGroups") and _every(data["segGroups"], "segments"), _read_scannet),
    (lambda data: bool(_entries(data)) and any(_has(e, "ins_id") for e in data), _read_interior_gs),
    (lambda data: _every(data, "label"), _read_own),
]
