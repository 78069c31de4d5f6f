"""Reads scenes: from scan files, or built from official annotations in place of missing scans."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from threading import Lock

from render_agent.errors import QuestionsError, SceneError
from render_agent.scans.box_files.reader import room_plan_file
from render_agent.scans.file_frame import AUTO, AnyUnit, Up
from render_agent.scans.scene import Scene
from render_agent.tasks.boxes.annotations import (
    SceneAnnotation,
    is_annotation_file,
    read_annotations,
)
from render_agent.tasks.boxes.room_ground_truth import ground_truth_file

logger = logging.getLogger(__name__)


class SceneReader:
    """Reads scenes from scan files, or builds them from annotation files, which are parsed once."""

    def __init__(self, up: Up = AUTO, unit: AnyUnit = AUTO) -> None:
        self.up = up
        self.unit = unit
        self._annotations: dict[Path, dict[str, SceneAnnotation]] = {}
        self._lock = Lock()

    def read(self, path: Path, name: str) -> Scene:
        """Read scene `name` of file `path`. Raises SceneError if it cannot be read."""
        if is_annotation_file(path):
            from render_agent.tasks.boxes.annotated_room import build_annotated_room

            return build_annotated_room(self._annotation(path, name), path)
        from render_agent.scans.formats.load import load_scene

        scene = load_scene(path, name, self.up, self.unit)
        companion = path.with_suffix(".json")
        if companion.is_file() and ground_truth_file(path) is None and room_plan_file(path) is None:
            note = f"ignored: {companion.name} (neither of make-rooms nor of RoomPlan); if it contains boxes, pass it with --boxes"
            scene = replace(scene, notes=(*scene.notes, note))
        logger.info("scene %s, %s: %s", name, path, "; ".join(scene.description))
        return scene

    def _annotation(self, path: Path, name: str) -> SceneAnnotation:
        with self._lock:
            try:
                if path not in self._annotations:
                    self._annotations[path] = read_annotations(path)
            except QuestionsError as error:
                raise SceneError(*error.args) from error
        if name not in self._annotations[path]:
            raise SceneError(f"{path} has no annotation of scene {name}; restore the file")
        return self._annotations[path][name]
