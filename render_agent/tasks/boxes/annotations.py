"""VSI-Bench's official annotations: the objects in each scene, and the size of its room."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.errors import QuestionsError
from render_agent.scans.boxes import OrientedBox
from render_agent.util.reasons import short_repr, truncate
from render_agent.util.safe_parse import parse_json, read_bounded
from render_agent.util.sanitize import is_plain

FILES = "*_meta_info*.json"  # annotation files, one per dataset and split
MIN_SIZE_METRES = 1e-3  # minimum thickness of a box
MAX_LENGTH_METRES = 1e6  # largest plausible coordinate or length
# Limits in square metres; the smallest official room has 2.4.
MIN_ROOM_SQUARE_METRES, MAX_ROOM_SQUARE_METRES = 0.1, 10_000

# errors raised by malformed entries, including strings evaluated as Python literals
ENTRY_ERRORS = (
    KeyError,
    TypeError,
    ValueError,
    SyntaxError,
    OverflowError,
    MemoryError,
    RecursionError,
)

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class BoxedObject(OrientedBox):
    """An annotated object: its box, in the frame of the annotations, and its category."""

    label: str


@dataclass(frozen=True, eq=False)
class SceneAnnotation:
    dataset: str
    scene: str
    counts: Mapping[str, int]
    """Objects per category as counted by the benchmark, which may differ from the number of boxes."""
    room_size: float  # square metres
    room_centre: FloatArray | None  # (3,) metres, or None if not given
    objects: tuple[BoxedObject, ...]


def is_annotation_file(path: Path) -> bool:
    """Return True if a scene file contains annotations rather than a scan."""
    return path.suffix == ".json"


def find_annotation_files(path: Path) -> list[Path]:
    """Return the annotation files in a folder, or the file itself. Raises QuestionsError if there are none."""
    files = sorted(path.glob(FILES)) if path.is_dir() else [path]
    if not files:
        raise QuestionsError(
            f"there are no annotations in {path}: expected files such as scannet_meta_info_val.json"
        )
    return files


def read_annotations(path: Path) -> dict[str, SceneAnnotation]:
    """Return the annotations in a file, or in all annotation files in a folder, by scene."""
    annotations: dict[str, SceneAnnotation] = {}
    for file in find_annotation_files(path):
        try:
            annotations |= _parse_file(file, read_bounded(file))
        except (OSError, ValueError) as error:
            raise QuestionsError(f"cannot read the annotations in {file}: {error}") from error
    return annotations


@lru_cache(maxsize=4)  # requested repeatedly for the same files
def _parse_file(file: Path, content: bytes) -> dict[str, SceneAnnotation]:
    """Parse the content of an annotation file. Raises ValueError if it is not JSON."""
    scenes = parse_json(content.decode("utf-8"))
    if not isinstance(scenes, dict) or not scenes:
        raise QuestionsError(
            f"{file} contains no annotations: expected a JSON object with scenes as keys"
        )
    annotations = {}
    for scene, entry in scenes.items():
        try:
            annotations[scene] = _annotation(scene, entry, _dataset(file))
        except ENTRY_ERRORS as error:
            raise QuestionsError(
                f"{file}, scene {short_repr(scene)}: {_reason(error)}; download the file again"
            ) from error
    return annotations


def _dataset(file: Path) -> str:
    return file.name.partition("_meta_info")[0]


def _annotation(scene: str, entry: Mapping[str, Any], dataset: str) -> SceneAnnotation:
    if not is_plain(scene):
        raise ValueError("its name contains an invisible character")
    boxes, counts = _table(entry["object_bbox"]), _table(entry["object_counts"])
    centre = entry.get("room_center")
    room_size = float(entry["room_size"])
    if not MIN_ROOM_SQUARE_METRES <= room_size <= MAX_ROOM_SQUARE_METRES:
        raise ValueError(f"the room size {room_size} is not plausible in square metres")
    return SceneAnnotation(
        dataset=str(entry.get("dataset", dataset)),
        scene=scene,
        counts={str(name): int(count) for name, count in counts.items()},
        room_size=room_size,
        room_centre=None if centre is None else vector(_plain(centre), 3),
        objects=tuple(
            _object(str(label), box)
            for label, category_boxes in boxes.items()
            for box in category_boxes
        ),
    )


def _object(label: str, box: Mapping[str, Any]) -> BoxedObject:
    if not is_plain(label):
        raise ValueError("a category's name contains an invisible character")
    axes = vector(box["normalizedAxes"], 9).reshape(3, 3)
    size = vector(box["axesLengths"], 3)
    if np.abs(axes @ axes.T - np.eye(3)).max() > 1e-3:
        raise ValueError(f"the axes of a {truncate(label)} are not orthonormal")
    if (size < 0).any():
        raise ValueError(f"a {truncate(label)} has a negative size")
    return BoxedObject(vector(box["centroid"], 3), np.maximum(size, MIN_SIZE_METRES), axes, label)


def _plain(value: Any) -> Any:
    """Evaluate a string that contains a Python literal, because the official files contain both literals and strings."""
    return ast.literal_eval(value) if isinstance(value, str) else value


def _table(value: Any) -> Mapping[str, Any]:
    table = _plain(value)
    if not isinstance(table, dict):
        raise ValueError(f"{short_repr(table)} is not a table of categories")
    return table


def vector(values: Any, length: int) -> FloatArray:
    """Convert a list of `length` numbers to an array. Raises ValueError if it is not such a list or a number is too
    large.
    """
    try:
        numbers = np.asarray(values, np.float64)
    except (TypeError, OverflowError) as error:
        raise ValueError(f"{short_repr(values)} is not a list of {length} numbers") from error
    if numbers.shape != (length,) or not (np.abs(numbers) <= MAX_LENGTH_METRES).all():
        raise ValueError(
            f"{short_repr(values)} is not a list of {length} numbers up to {MAX_LENGTH_METRES:g}"
        )
    return numbers


def _reason(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"{short_repr(error.args[0])} is missing"
    return truncate(error, 200)  # the message may quote a value of any length
