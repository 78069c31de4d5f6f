"""VSI-Bench's official annotations: the objects in each scene, and the size of its room."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from msgspec import Meta, Struct

from render_agent.errors import QuestionsError
from render_agent.scans.boxes import OrientedBox
from render_agent.util.reasons import short_repr, truncate
from render_agent.util.safe_parse import convert, parse_json, read_bounded
from render_agent.util.sanitize import is_plain

FILES = "*_meta_info*.json"  # annotation files, one per dataset and split
MIN_SIZE_METRES = 1e-3  # minimum thickness of a box

# Plausible coordinates and lengths in metres, and sizes of rooms in square metres; the smallest official room has 2.4.
Number = Annotated[float, Meta(ge=-1e6, le=1e6)]
Length = Annotated[float, Meta(ge=0, le=1e6)]
RoomSize = Annotated[float, Meta(ge=0.1, le=10_000)]


class _Box(Struct):
    centroid: tuple[Number, Number, Number]
    axesLengths: tuple[Length, Length, Length]
    normalizedAxes: Annotated[list[Number], Meta(min_length=9, max_length=9)]


class _Entry(Struct):
    room_size: RoomSize
    object_counts: dict[str, int]
    object_bbox: dict[str, list[_Box]]


@dataclass(frozen=True, eq=False)
class BoxedObject(OrientedBox):
    """An annotated object: its box, in the frame of the annotations, and its category."""

    label: str


@dataclass(frozen=True, eq=False)
class SceneAnnotation:
    scene: str
    counts: Mapping[str, int]
    """Objects per category as counted by the benchmark, which may differ from the number of boxes."""
    room_size: float  # square metres
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
            annotations[scene] = _annotation(scene, entry)
        # of strings that are read as Python literals, and of values that do not match
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError) as error:
            reason = truncate(error, 200)  # the message may quote a value of any length
            raise QuestionsError(
                f"{file}, scene {short_repr(scene)}: {reason}; download the file again"
            ) from error
    return annotations


def _annotation(scene: str, entry: Any) -> SceneAnnotation:
    if not is_plain(scene):
        raise ValueError("its name contains an invisible character")
    if isinstance(entry, dict):  # some official files contain tables as Python literals
        entry = {
            name: ast.literal_eval(value)
            if isinstance(value, str) and name.startswith("object_")
            else value
            for name, value in entry.items()
        }
    fields: _Entry = convert(entry, _Entry)
    objects = [_object(label, box) for label, boxes in fields.object_bbox.items() for box in boxes]
    return SceneAnnotation(scene, fields.object_counts, fields.room_size, tuple(objects))


def _object(label: str, box: _Box) -> BoxedObject:
    if not is_plain(label):
        raise ValueError("a category's name contains an invisible character")
    axes = np.array(box.normalizedAxes, float).reshape(3, 3)
    if np.abs(axes @ axes.T - np.eye(3)).max() > 1e-3:
        raise ValueError(f"the axes of a {truncate(label)} are not orthonormal")
    size = np.maximum(np.array(box.axesLengths, float), MIN_SIZE_METRES)
    return BoxedObject(np.array(box.centroid, float), size, axes, label)
