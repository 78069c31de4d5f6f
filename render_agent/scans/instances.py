"""Instance labels beside a scan: which object each vertex of a mesh belongs to, as ScanNet's files say."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from render_agent.errors import SceneError
from render_agent.util.safe_parse import decode, read_bounded

Index = Annotated[int, Meta(ge=-1, le=2**31 - 1)]

MESH_SUFFIX = "_vh_clean_2.ply"
"""How ScanNet's meshes end that `SCENE.aggregation.json` is about."""


SEGMENTS_SUFFIX = "_vh_clean_2.0.010000.segs.json"


class _Segments(Struct):
    segIndices: list[Index]


class _Group(Struct):
    segments: list[Index]


class _Aggregation(Struct):
    segGroups: list[_Group]


def instance_files(scan: Path) -> tuple[Path, ...]:
    """Return the two files of labels beside a scan, the segments first; none where they are not both there."""
    scene = scan.name.removesuffix(MESH_SUFFIX)
    names = f"{scene}{SEGMENTS_SUFFIX}", f"{scene}.aggregation.json"
    files = tuple(scan.with_name(name) for name in names)
    known = scan.name.endswith(MESH_SUFFIX) and all(file.is_file() for file in files)
    return files if known else ()


def read_instances(scan: Path | None, vertices: int) -> NDArray[np.int32] | None:
    """Return the number of each vertex's object, (n,), -1 for none; None where no labels lie beside the scan.

    vertices: how many the scene has. SceneError where the labels cannot be read, or are of another mesh.
    """
    if scan is None or not (files := instance_files(scan)):
        return None
    try:
        segments: _Segments = decode(read_bounded(files[0]), _Segments)
        aggregation: _Aggregation = decode(read_bounded(files[1]), _Aggregation)
    except (OSError, ValueError) as error:
        raise SceneError(f"the instance labels beside {scan} cannot be read: {error}") from error
    own = np.array(segments.segIndices, np.int64)
    if len(own) != vertices:
        raise SceneError(f"{files[0]} labels {len(own)} vertices, and {scan} has {vertices}")
    instances = np.full(vertices, -1, np.int32)
    for number, group in enumerate(aggregation.segGroups):
        instances[np.isin(own, group.segments)] = number
    return instances
