"""Homes: the expert's knowledge of each scene. Boxes, and rooms if the scan comes with a ground-truth file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from render_agent.dialogue.question import Question
from render_agent.options import RunConfig
from render_agent.scans.scene import Scene
from render_agent.tasks.boxes.annotations import is_annotation_file
from render_agent.tasks.boxes.room_ground_truth import (
    RoomGroundTruth,
    ground_truth_file,
    read_ground_truth,
)
from render_agent.tasks.ground_truth import Facts, load_facts
from render_agent_lab.expert.derive import Knowledge
from render_agent_lab.expert.floor import WalkableFloor


@dataclass(eq=False)
class SceneTruth:
    """Ground truth of a scene, in the frame of its file. `truth` is None unless `make-rooms` wrote the scene."""

    facts: Facts
    truth: RoomGroundTruth | None
    _floor: tuple[tuple[object, ...], WalkableFloor] | None = None

    @property
    def extents(self) -> tuple[tuple[float, float], ...]:
        """Size of each room along x and y in metres, largest first; empty if unknown."""
        boxes = [] if self.truth is None else [room.box for room in self.truth.rooms]
        extents = [(right - left, back - front) for left, front, right, back in boxes]
        return tuple(sorted(extents, key=lambda extent: -extent[0] * extent[1]))

    @cached_property
    def categories(self) -> frozenset[str]:
        """Lower-case categories that have boxes."""
        return frozenset(name.lower() for name, boxes in self.facts.boxes.items() if boxes)

    @property
    def knowledge(self) -> Knowledge:
        """Everything known of the scene."""
        boxes = {
            name.lower(): tuple(category_boxes) for name, category_boxes in self.facts.boxes.items()
        }
        return Knowledge(boxes, self.extents)

    def floor_in(self, scene: Scene) -> WalkableFloor | None:
        """Return the floor in the frame of a loaded scene, None if unknown."""
        if self.truth is None:
            return None
        frame = scene.origin, scene.mirrored_at
        if self._floor is None or self._floor[0] != frame:
            self._floor = frame, WalkableFloor(self.truth, scene)
        return self._floor[1]


def load_homes(questions: Sequence[Question], config: RunConfig | None) -> dict[str, SceneTruth]:
    """Return the homes of the questions' scenes, without unknown scenes.

    Raises QuestionsError like `load_facts`.
    """
    scans = {question.scene: question.scan for question in questions}
    return {
        scene: SceneTruth(facts, _read_ground_truth(scans[scene]))
        for scene, facts in load_facts(questions, config).items()
    }


def load_knowledge(questions: Sequence[Question]) -> dict[str, Knowledge]:
    """Return everything known of the questions' scenes, by scene, in the frames of their files.

    Unknown scenes are left out. Raises QuestionsError like `load_facts`.
    """
    return {scene: home.knowledge for scene, home in load_homes(questions, None).items()}


def _read_ground_truth(scan: Path | None) -> RoomGroundTruth | None:
    file = None if scan is None or is_annotation_file(scan) else ground_truth_file(scan)
    return None if file is None else read_ground_truth(file)
