"""Boxes in the annotations of InteriorGS, ScanNet, ScanNet++ and ARKitScenes."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from msgspec import Meta, Struct

from render_agent.scans.box_files.box_file import (
    BoxFile,
    BoxFrame,
    Label,
    NamedBox,
    Number,
    Vector,
    box_of_corners,
    thicken,
)
from render_agent.scans.boxes import OrientedBox
from render_agent.scans.formats.axis_alignment import read_alignment
from render_agent.scans.instances import MESH_SUFFIX, read_groups
from render_agent.scans.scene import Scene
from render_agent.util.safe_parse import convert


class _Corner(Struct):
    x: Number
    y: Number
    z: Number


class _Instance(Struct):
    label: Label
    bounding_box: list[_Corner] = []


class _Obb(Struct):
    centroid: Vector
    axesLengths: Vector
    normalizedAxes: Annotated[list[Number], Meta(min_length=9, max_length=9)]

    @property
    def box(self) -> OrientedBox:
        axes = np.array(self.normalizedAxes, float).reshape(3, 3)
        return OrientedBox(np.array(self.centroid), thicken(np.array(self.axesLengths)), axes)


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


def read_interior_gs(data: Any) -> BoxFile:
    """Read InteriorGS's labels.json: z up, metres, eight corners per instance."""
    instances: list[_Instance] = convert(data, list[_Instance])
    objects = []
    for entry in instances:
        corners = np.array([(corner.x, corner.y, corner.z) for corner in entry.bounding_box])
        with suppress(ValueError):
            if corners.shape == (8, 3):
                objects.append(NamedBox(entry.label, box_of_corners(corners)))
    missing = len(instances) - len(objects)
    unused = (f"{missing} instances without a box that has a size",) if missing else ()
    return BoxFile("InteriorGS", objects, BoxFrame("z", 1.0), unused=unused)


def read_scannetpp(data: Any) -> BoxFile:
    annotation: _Annotation = convert(data, _Annotation)
    return BoxFile("ScanNet++", [NamedBox(g.label, g.obb.box) for g in annotation.segGroups])


def read_arkitscenes(data: Any) -> BoxFile:
    detections: _Detections = convert(data, _Detections)
    objects = [
        NamedBox(entry.label.replace("_", " "), entry.segments.obbAligned.box)
        for entry in detections.data
    ]
    return BoxFile("ARKitScenes", objects)


def read_scannet(path: Path, scene: Scene) -> BoxFile:
    """Compute the boxes of ScanNet's segments, parallel to the aligned axes, from the vertices of its mesh."""
    scan = scene.source
    if scan is None or not scan.name.endswith(MESH_SUFFIX):
        raise ValueError(f"ScanNet's segments belong to a mesh named SCENE{MESH_SUFFIX}")
    alignment = read_alignment(scan)
    matrix = np.eye(4) if alignment is None else alignment
    turn, shift = matrix[:3, :3], matrix[:3, 3]
    points = scene.points + np.array(scene.origin)
    objects = []
    for label, vertices in read_groups(path, len(points)):
        if not len(vertices):
            raise ValueError(f"the segments of {label} have no vertices")
        low, high = points[vertices].min(0), points[vertices].max(0)
        centre = ((low + high) / 2 - shift) @ turn  # back in the frame of the file
        objects.append(NamedBox(label, OrientedBox(centre, thicken(high - low), turn)))
    return BoxFile("ScanNet", objects, BoxFrame("z", 1.0))
