"""Floor plans: one image per scene, shared by the pages of all its questions."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from render_agent.dialogue.question import Question
from render_agent.dialogue.state import QuestionState
from render_agent.errors import RenderError, SceneError
from render_agent.render.make_renderer import make_renderer
from render_agent.render.map_view.map_view import FloorPlan, TopView, frame_room
from render_agent.render.map_view.overlay import PlotArea
from render_agent.report.diagnosis.model import Diagnosis
from render_agent.report.pages.view3d.scene_file import scene_file_path, scene_script
from render_agent.scans.cache import SceneCache
from render_agent.scans.camera import Camera, MapCamera, Vector
from render_agent.views.image_store import safe_name

SIZE_PIXELS = (800, 600)  # width and height of a plan
COLOURS = 128  # palette size; a third of the bytes without a visible difference
MARGIN_METRES = 1.0  # margin around the known points of a scene that cannot be rendered


@dataclass(frozen=True, slots=True)
class ScenePlan:
    """Top view of a scene, without a path."""

    file: str | None
    """Image, relative to the report; None if the scan cannot be rendered."""
    camera: MapCamera
    """Maps points to pixels of an image of `size`."""
    size: tuple[int, int] = SIZE_PIXELS
    scene: str | None = None
    """Data file of the 3D view, relative to the report."""

    @property
    def plot(self) -> PlotArea:
        """The part of the image that shows the scene."""
        return PlotArea.inside(*self.size)

    def pixel(self, point: Vector) -> tuple[float, float]:
        """Project a world point in metres to plan pixels (u, v)."""
        (x, y), scale = self.camera.centre, self.camera.metres_per_pixel
        return (point[0] - x) / scale + self.size[0] / 2, self.size[1] / 2 - (point[1] - y) / scale


class FloorPlanCache:
    """Floor plans and 3D-view files of a run's scenes, created on first use."""

    def __init__(
        self,
        folder: Path,
        scenes: SceneCache,
        # the questions of the run in order; the first pose in a scene determines the storey
        states: Sequence[QuestionState],
    ) -> None:
        self.folder = folder
        self.scenes = scenes
        self._states = states
        self._renderer = make_renderer("rasteriser")
        self._plans: dict[str, ScenePlan | None] = {}

    def of(self, state: QuestionState, diagnosis: Diagnosis | None = None) -> ScenePlan | None:
        """Return the plan of a question's scene; None if the question has no poses."""
        if next(camera_poses(state), None) is None:
            return None
        scene = state.question.scene
        if scene not in self._plans:
            self._plans[scene] = self._draw(state.question)
        return self._plans[scene] or bare_plan(camera_poses(state), diagnosis)

    def close(self) -> None:
        """Close the renderer."""
        self._renderer.close()

    def _draw(self, question: Question) -> ScenePlan | None:
        """Draw the plan of a scene; return None if its scan cannot be read or rendered."""
        name = question.scene
        first_camera = next(
            camera
            for state in self._states
            if state.question.scene == name
            for camera in camera_poses(state)
        )
        try:
            scene = self.scenes.get(question)
            floor_plan = TopView(self._renderer, SIZE_PIXELS).plan(scene, first_camera)
        except (SceneError, RenderError):
            return None
        plan = ScenePlan(
            f"plans/{safe_name(name)}.png", floor_plan.camera, scene=scene_file_path(name)
        )
        for file, content in ((plan.file, _png(floor_plan)), (plan.scene, scene_script(scene))):
            assert file is not None
            (self.folder / file).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / file).write_bytes(content)
        return plan


def camera_poses(state: QuestionState) -> Iterator[Camera]:
    """Yield the poses of all turns and views of a question in order; nothing for a run without views."""
    for turn in state.turns:
        if state.blind:
            return
        yield turn.camera_before
        yield from (view.camera for view in turn.views if isinstance(view.camera, Camera))
        yield turn.camera


def bare_plan(cameras: Iterable[Camera], diagnosis: Diagnosis | None) -> ScenePlan:
    """Return a plan without an image that covers the given poses and the boxes of a diagnosis."""
    boxes = () if diagnosis is None else diagnosis.boxes
    points = np.array([camera.position for camera in cameras] + [box.centre for box in boxes])
    bounds = np.stack([points.min(0) - MARGIN_METRES, points.max(0) + MARGIN_METRES])
    return ScenePlan(
        None, frame_room(bounds, float(bounds[1, 2]), PlotArea.inside(*SIZE_PIXELS), SIZE_PIXELS)
    )


def _png(plan: FloorPlan) -> bytes:
    image = Image.fromarray(plan.image).quantize(COLOURS, Image.Quantize.FASTOCTREE)
    file = io.BytesIO()
    image.save(file, "PNG", compress_level=3)
    return file.getvalue()
