"""Homes as files: the scan as a binary PLY, the truth as JSON, the questions as JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from render_agent.scene.room_truth import RoomTruth, to_json
from render_agent_lab.room_generator.shapes import Mesh

HEADER = """ply
format binary_little_endian 1.0
comment made by render-agent make-rooms
element vertex {vertices}
property float x
property float y
property float z
property uchar red
property uchar green
property uchar blue
element face {faces}
property list uchar int vertex_indices
end_header
"""


def write_scan(mesh: Mesh, path: Path) -> None:
    """Write a mesh as a binary PLY: float32 coordinates in metres, uchar colours, triangles.

    Coordinates are rounded to a tenth of a millimetre, so that every machine writes the same bytes.
    """
    vertices = np.empty(
        len(mesh.points), np.dtype([("point", "<f4", 3), ("colour", "u1", 3)], align=False)
    )
    vertices["point"] = np.round(mesh.points, 4)
    vertices["colour"] = np.round(np.clip(mesh.colours, 0, 1) * 255)
    faces = np.empty(
        len(mesh.faces), np.dtype([("count", "u1"), ("corners", "<i4", 3)], align=False)
    )
    faces["count"] = 3
    faces["corners"] = mesh.faces
    header = HEADER.format(vertices=len(vertices), faces=len(faces))
    path.write_bytes(header.encode("ascii") + vertices.tobytes() + faces.tobytes())


def write_truth(truth: RoomTruth, path: Path) -> None:
    """Write a truth as JSON."""
    path.write_text(json.dumps(to_json(truth), separators=(",", ":")) + "\n", "utf-8")


def write_questions(rows: Iterable[dict[str, Any]], path: Path) -> None:
    """Write rows in VSI-Bench's format, an object a line."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
