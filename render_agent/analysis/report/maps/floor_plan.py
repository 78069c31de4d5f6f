"""Floor plans: one picture a scene, shared by the pages of all its questions."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, PngImagePlugin

from render_agent.analysis.diagnosis.model import Diagnosis
from render_agent.analysis.report.view3d.scene_file import is_scene, scene_file, scene_script
from render_agent.dialogue.state import Question, QuestionState, SceneSource
from render_agent.errors import RenderError, SceneError
from render_agent.geometry.camera import Camera, MapCamera, Vector
from render_agent.observation.picture_store import safe_name
from render_agent.render.base import Renderer
from render_agent.render.map_view.map_view import FloorPlan, TopView, framed
from render_agent.render.map_view.overlay import Plot
from render_agent.render.registry import make_renderer
from render_agent.scene.kept import kept_of
from render_agent.scene.model import Scene
from render_agent.system.whole_files import write_whole
from render_agent.text.safe_parse import decode, encode

SIZE_PIXELS = (800, 600)
"""Width and height of a plan."""

COLOURS = 128
"""So many colours a plan is stored in: a third of the bytes, no difference to the eye."""

CAMERA_KEY = "camera"
"""Under this name a plan's file says what it was drawn with."""

MARGIN_METRES = 1.0
"""Shown around what is known of a scene whose scan cannot be drawn."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A scene from above, without a path.

    file: the picture, relative to the report; None where the scan cannot be drawn. camera: which
    pixel of a picture of `size` shows which point. scene: the file of the 3D view, relative to the report.
    """

    file: str | None
    camera: MapCamera
    size: tuple[int, int] = SIZE_PIXELS
    scene: str | None = None

    @property
    def plot(self) -> Plot:
        """The part of the picture that shows the place."""
        return Plot.inside(*self.size)

    def pixel(self, point: Vector) -> tuple[float, float]:
        """Return where a world point, metres, is on the plan, as (u, v)."""
        (x, y), scale = self.camera.centre, self.camera.metres_per_pixel
        return (point[0] - x) / scale + self.size[0] / 2, self.size[1] / 2 - (point[1] - y) / scale


@dataclass(frozen=True)
class PlanWriter:
    """Writes the plan of a scene and its file for the 3D view into a report, unless they lie there already.

    report: its folder. cameras: by scene the first pose in it, which tells the storey.
    """

    report: Path
    cameras: Mapping[str, Camera]

    def __call__(self, scene: Scene, question: Question, renderer: Renderer) -> None:
        """Write them. RenderError where the scene cannot be drawn."""
        name = question.scene
        in_3d, file = self.report / scene_file(name), self.report / _plan_file(name)
        if name in self.cameras and not is_scene(in_3d):
            write_whole(in_3d, _script(scene), durable=False)
        if name in self.cameras and _read(file) is None:
            write_whole(file, _picture(scene, self.cameras[name], renderer), durable=False)


def _script(scene: Scene) -> bytes:
    return kept_of(scene, "script of the 3D view", lambda: scene_script(scene))


def _picture(scene: Scene, camera: Camera, renderer: Renderer) -> bytes:
    def make() -> bytes:
        return _encoded(TopView(renderer, SIZE_PIXELS).plan(scene, camera))

    return kept_of(scene, f"plan at {camera.position[2]!r} m", make)


def keep_scene(scene: Scene, camera: Camera, renderer: Renderer) -> None:
    """Make the plan of a scene and its file for the 3D view where they are not kept yet.

    camera: the first pose in it. RenderError where the scene cannot be drawn.
    """
    _script(scene)
    _picture(scene, camera, renderer)


def plan_writer(report: Path, states: Iterable[QuestionState]) -> PlanWriter:
    """Return what writes the plans of all scenes that the states of a run moved in."""
    return PlanWriter(report, first_cameras(states))


def first_cameras(states: Iterable[QuestionState]) -> dict[str, Camera]:
    """Return by scene the first pose in it, of those that the states of a run moved in."""
    cameras: dict[str, Camera] = {}
    for state in states:
        if state.question.scene not in cameras and (camera := next(cameras_of(state), None)):
            cameras[state.question.scene] = camera
    return cameras


class Plans:
    """The plans of a run, each drawn when first asked for, unless it lies in the report already.

    report: the folder of the report. states: of the run, in its order.
    """

    def __init__(self, report: Path, scenes: SceneSource, states: Iterable[QuestionState]) -> None:
        self.report = report
        self.scenes = scenes
        self._write = plan_writer(report, states)
        self._renderer: Renderer | None = None
        self._plans: dict[str, Plan | None] = {}

    def of(self, state: QuestionState, diagnosis: Diagnosis | None = None) -> Plan | None:
        """Return the plan of the scene that a question was asked in; None where nothing is known of it."""
        if next(cameras_of(state), None) is None:
            return None
        scene = state.question.scene
        if scene not in self._plans:
            self._plans[scene] = self._found(state.question)
        return self._plans[scene] or bare_plan(cameras_of(state), diagnosis)

    def close(self) -> None:
        """Give back what drawing needed."""
        if self._renderer is not None:
            self._renderer.close()

    def _found(self, question: Question) -> Plan | None:
        file, in_3d = _plan_file(question.scene), scene_file(question.scene)
        kept = _read(self.report / file)
        if kept is None or not is_scene(self.report / in_3d):
            try:
                self._renderer = self._renderer or make_renderer("rasteriser")
                self._write(self.scenes.get(question), question, self._renderer)
            except (SceneError, RenderError):
                return None
            kept = _read(self.report / file)
        return None if kept is None else Plan(file, kept, scene=in_3d)


def _plan_file(scene: str) -> str:
    return f"plans/{safe_name(scene)}.png"


def cameras_of(state: QuestionState) -> Iterator[Camera]:
    """Yield the poses of a question in order: of its views, and where it stood; none of a blind one."""
    for turn in state.turns:
        if state.blind:
            return
        yield turn.stood
        yield from (view.camera for view in turn.views if isinstance(view.camera, Camera))
        yield turn.camera


def bare_plan(cameras: Iterable[Camera], diagnosis: Diagnosis | None) -> Plan:
    """Return a plan without a picture that holds these poses and the boxes of a diagnosis."""
    boxes = () if diagnosis is None else diagnosis.boxes
    points = np.array([camera.position for camera in cameras] + [box.centre for box in boxes])
    bounds = np.stack([points.min(0) - MARGIN_METRES, points.max(0) + MARGIN_METRES])
    return Plan(None, framed(bounds, float(bounds[1, 2]), Plot.inside(*SIZE_PIXELS), SIZE_PIXELS))


def _encoded(plan: FloorPlan) -> bytes:
    info = PngImagePlugin.PngInfo()
    info.add_text(CAMERA_KEY, encode(plan.camera).decode())
    image = Image.fromarray(plan.picture).quantize(COLOURS, Image.Quantize.FASTOCTREE)
    file = io.BytesIO()
    image.save(file, "PNG", pnginfo=info, compress_level=3)
    return file.getvalue()


def _read(path: Path) -> MapCamera | None:
    """Return the camera of a plan's file; None where there is no such file."""
    if not path.is_file():
        return None
    try:
        with Image.open(path, formats=["PNG"]) as image:
            camera: MapCamera = decode(str(image.info[CAMERA_KEY]).encode(), MapCamera)
            return camera
    except (OSError, KeyError, TypeError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None
