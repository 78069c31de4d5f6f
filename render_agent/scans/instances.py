"""Instance labels of a scan: the object that each mesh vertex belongs to, in ScanNet's file format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from render_agent.errors import SceneError
from render_agent.util.safe_parse import decode_json, read_bounded

Index = Annotated[int, Meta(ge=-1, le=2**31 - 1)]

MESH_SUFFIX = "_vh_clean_2.ply"  # the ScanNet mesh that SCENE.aggregation.json refers to
AGGREGATION_SUFFIX = ".aggregation.json"
SEGMENTS_SUFFIX = "_vh_clean_2.0.010000.segs.json"


class _Segments(Struct):
    segIndices: list[Index]


class _Group(Struct):
    segments: list[Index]
    label: str = ""


class _Aggregation(Struct):
    segGroups: list[_Group]


def segments_file(aggregation: Path) -> Path:
    """Return the path of the segmentation that a SCENE.aggregation.json refers to."""
    return aggregation.with_name(
        aggregation.name.removesuffix(AGGREGATION_SUFFIX) + SEGMENTS_SUFFIX
    )


def instance_files(scan: Path) -> tuple[Path, ...]:
    """Return the two label files of a scan, segments first; () unless both exist."""
    aggregation = scan.with_name(scan.name.removesuffix(MESH_SUFFIX) + AGGREGATION_SUFFIX)
    files = segments_file(aggregation), aggregation
    has_labels = scan.name.endswith(MESH_SUFFIX) and all(file.is_file() for file in files)
    return files if has_labels else ()


def read_instances(
    scan: Path | None,  # scan file, or None for a scene without one
    vertices: int,
) -> NDArray[np.int32] | None:
    """Return the object number of each vertex, (n,); None if the scan has no label files."""
    if scan is None or not (files := instance_files(scan)):
        return None
    instances = np.full(vertices, -1, np.int32)
    try:
        for number, (_, members) in enumerate(read_groups(files[1], vertices)):
            instances[members] = number
    except (OSError, ValueError) as error:
        raise SceneError(f"cannot read the instance labels of {scan}: {error}") from error
    return instances


def read_groups(aggregation: Path, vertices: int) -> list[tuple[str, NDArray[np.intp]]]:
    """Return the label and the vertex indices of each object. Raises OSError and ValueError."""
    path = segments_file(aggregation)
    segments: _Segments = decode_json(read_bounded(path), _Segments)
    objects: _Aggregation = decode_json(read_bounded(aggregation), _Aggregation)
    segments_of_vertices = np.array(segments.segIndices, np.int64)
    if len(segments_of_vertices) != vertices:
        raise ValueError(
            f"{path} has labels for {len(segments_of_vertices)} vertices, but the scan has {vertices}"
        )
    return [
        (group.label, np.flatnonzero(np.isin(segments_of_vertices, group.segments)))
        for group in objects.segGroups
    ]
