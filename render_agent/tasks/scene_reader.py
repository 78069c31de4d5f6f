"""Reads scenes: from scan files, or built from official annotations in place of missing scans."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

from render_agent.errors import QuestionsError, SceneError
from render_agent.scans.box_files.reader import room_plan_file
from render_agent.scans.file_frame import AUTO, AnyUnit, Up
from render_agent.scans.scene import Scene
from render_agent.tasks.boxes.annotations import (
    is_annotation_file,
    read_annotations,
)
from render_agent.tasks.boxes.room_ground_truth import ground_truth_file

logger = logging.getLogger(__name__)


def read_scene(path: Path, name: str, up: Up = AUTO, unit: AnyUnit = AUTO) -> Scene:
    """Read scene `name` of a scan file, or build it from an annotation file. Raises SceneError if that fails."""
    if is_annotation_file(path):
        from render_agent.tasks.boxes.annotated_room import build_annotated_room

        try:
            annotation = read_annotations(path).get(name)
        except QuestionsError as error:
            raise SceneError(*error.args) from error
        if annotation is None:
            raise SceneError(f"{path} has no annotation of scene {name}; restore the file")
        return build_annotated_room(annotation, path)
    from render_agent.scans.formats.load import load_scene

    scene = load_scene(path, name, up, unit)
    companion = path.with_suffix(".json")
    if companion.is_file() and ground_truth_file(path) is None and room_plan_file(path) is None:
        note = f"ignored: {companion.name} (neither of make-rooms nor of RoomPlan); if it contains boxes, pass it with --boxes"
        scene = replace(scene, notes=(*scene.notes, note))
    logger.info("scene %s, %s: %s", name, path, "; ".join(scene.description))
    return scene
