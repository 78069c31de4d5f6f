"""Apple RoomPlan's exported JSON: `CapturedRoom` and `CapturedStructure`, y up, metres."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from msgspec import Meta, Struct

from render_agent.scans.box_files.box_file import (
    BoxFile,
    BoxFrame,
    NamedBox,
    Number,
    Vector,
    thicken,
)
from render_agent.scans.boxes import Array, OrientedBox
from render_agent.util.safe_parse import convert

# Corners of a flat rectangle, as shares of its width and height.
RECTANGLE = np.array([[-0.5, -0.5, 0], [0.5, -0.5, 0], [0.5, 0.5, 0], [-0.5, 0.5, 0]])


class _Element(Struct):
    dimensions: Vector  # width, height, depth
    transform: Annotated[list[Number], Meta(min_length=16, max_length=16)]  # column by column
    category: dict[str, Any] | str = ""
    polygonCorners: list[Vector] = []  # in the frame of the surface

    @property
    def matrix(self) -> Array:
        return np.array(self.transform, float).reshape(4, 4).T

    @property
    def polygon(self) -> Array:
        """Corners of a surface, (k, 3) metres; RoomPlan gives none for rectangles."""
        is_polygon = len(self.polygonCorners) >= 3
        local = np.array(self.polygonCorners) if is_polygon else RECTANGLE * self.dimensions
        corners: Array = local @ self.matrix[:3, :3].T + self.matrix[:3, 3]
        return corners


class _CapturedRoom(Struct):
    objects: list[_Element]
    doors: list[_Element] = []
    windows: list[_Element] = []
    floors: list[_Element] = []


def is_room_plan(data: Any) -> bool:
    return isinstance(data, dict) and "objects" in data and "walls" in data


def read_room_plan(data: Any) -> BoxFile:
    """Read objects, doors, windows and floors."""
    room: _CapturedRoom = convert(data, _CapturedRoom)
    elements = [(_category(element), element) for element in room.objects]
    elements += [("door", e) for e in room.doors] + [("window", e) for e in room.windows]
    objects = [
        NamedBox(
            label,
            OrientedBox(
                element.matrix[:3, 3], thicken(np.array(element.dimensions)), element.matrix[:3, :3].T
            ),
        )
        for label, element in elements
    ]  # fmt: skip
    unused = [
        f"{len(part)} {name}"
        for name, part in data.items()
        if name not in (*_CapturedRoom.__struct_fields__, "referenceOriginTransform")
        and isinstance(part, list)
        and part
    ]
    origin = data.get("referenceOriginTransform")
    if origin is not None and origin != np.eye(4).ravel().tolist():
        unused.append("referenceOriginTransform")
    return BoxFile(
        "RoomPlan",
        objects,
        BoxFrame("y", 1.0),
        tuple(element.polygon for element in room.floors),
        tuple(unused),
    )


def _category(element: _Element) -> str:
    """Return the category as words, such as "washer dryer"."""
    name = (
        element.category if isinstance(element.category, str) else next(iter(element.category), "")
    )
    return "".join(f" {c.lower()}" if c.isupper() else c for c in name).strip() or "object"
