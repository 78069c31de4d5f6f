"""Targets of questions whose answer is a pose: their cameras, and the errors of other cameras."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from threading import Lock

import numpy as np
from msgspec import structs

from render_agent.dialogue.question import (
    Pose,
    Question,
    TargetError,
    parse_pose,
    pose_error,
    pose_of,
)
from render_agent.errors import SceneError
from render_agent.render.viewer import Viewer
from render_agent.scans.camera import Camera, wrap_degrees
from render_agent.scans.free_space.free_space import FreeSpace
from render_agent.scans.free_space.shortest_path import ShortestPaths
from render_agent.scans.scene import Scene
from render_agent.visibility.view_overlap import VisibleSurface

MAX_TARGETS = 256  # targets kept in memory, with their distance fields


def target_camera(question: Question, scene: Scene, vertical_fov: float) -> Camera:
    """Return the camera of a question's target in the scene as shown. Raises SceneError if the pose is unreadable."""
    pose = parse_pose(question.ground_truth or "")
    if pose is None:
        raise SceneError(f"the ground truth of question {question.id} is not a pose")
    x, y, z = (float(value) for value in np.array(pose[:3]) - scene.origin)
    return Camera((x, y, z), wrap_degrees(pose[3]), pose[4], vertical_fov).mirrored(
        scene.mirrored_at
    )


def file_pose(camera: Camera, scene: Scene) -> Pose:
    """Return the pose of a camera in the frame of the scan file."""
    original = camera.mirrored(scene.mirrored_at)
    return pose_of(original.at(np.array(original.position) + scene.origin))


@dataclass(frozen=True, eq=False)
class Target:
    """The target of one question. Use it in the thread that owns the renderer."""

    scene: Scene
    viewer: Viewer
    pose: Pose
    paths: ShortestPaths
    surface: VisibleSurface

    def error_of(self, camera: Camera) -> TargetError:
        """Return the errors of a camera."""
        surface = VisibleSurface.of(self.scene, camera, self.viewer)
        length = self.paths.length(camera.position)
        return structs.replace(
            pose_error(file_pose(camera, self.scene), self.pose),
            path=None if length is None else round(length, 4),
            overlap=round(self.surface.overlap(surface), 4),
        )


@dataclass(eq=False)
class Targets:
    """The most recently used targets by question. Thread-safe."""

    _targets: OrderedDict[str, Target] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def of(self, question: Question, scene: Scene, space: FreeSpace, viewer: Viewer) -> Target:
        """Return the target of a question."""
        with self._lock:
            target = self._targets.pop(question.id, None)
        if target is None or target.scene is not scene:
            camera = target_camera(question, scene, viewer.vertical_fov)
            paths = ShortestPaths(space, camera.position)
            surface = VisibleSurface.of(scene, camera, viewer)
            target = Target(scene, viewer, file_pose(camera, scene), paths, surface)
        with self._lock:
            self._targets[question.id] = target
            while len(self._targets) > MAX_TARGETS:
                self._targets.popitem(last=False)
        return target
