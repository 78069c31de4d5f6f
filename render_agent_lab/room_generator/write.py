"""Ground truth of a generated home, and its files: scan (binary PLY), ground truth (JSON), questions (JSON lines)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from render_agent.scans.formats.ply.binary import binary_ply
from render_agent.tasks.boxes.room_ground_truth import AnnotatedObject, RoomGroundTruth, to_json
from render_agent_lab.room_generator.build import Home
from render_agent_lab.room_generator.shapes import Mesh


def write_scan(mesh: Mesh, path: Path) -> None:
    """Write a mesh as binary PLY, rounded to 0.1 mm, so that every machine writes the same bytes."""
    points = np.round(mesh.points, 4).astype(np.float32)
    colours = np.round(np.clip(mesh.colours, 0, 1) * 255).astype(np.uint8)
    path.write_bytes(binary_ply(points, colours, mesh.faces, "made by render-agent make-rooms"))


def write_truth(truth: RoomGroundTruth, path: Path) -> None:
    path.write_text(json.dumps(to_json(truth), separators=(",", ":")) + "\n", "utf-8")


def write_questions(rows: Iterable[dict[str, Any]], path: Path) -> None:
    """Write rows in VSI-Bench's format, one JSON object per line; rows without an id are numbered."""
    lines = (json.dumps({"id": number, **row}) + "\n" for number, row in enumerate(rows))
    path.write_text("".join(lines), "utf-8")


def ground_truth_of(home: Home, scene: str) -> RoomGroundTruth:
    numbers = {id(item): number for number, item in enumerate(home.items)}
    objects = []
    for item in home.items:
        box = item.box
        support = None if item.support is None else numbers[id(item.support)]
        objects.append(
            AnnotatedObject(
                item.label,
                np.round(box.centre, 5),
                np.round(box.size, 5),
                np.round(box.axes, 9) + 0.0,
                item.built.kind,
                item.room,
                support,
            )
        )
    plan = home.plan
    return RoomGroundTruth(scene, home.kind, plan.area, plan.height, plan.rooms, plan.ways, objects)
