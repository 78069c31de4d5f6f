"""Scenes without a question: a scan is opened, drawn from any pose, and walked in."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path

from render_agent.api.notebook_pictures import Picture
from render_agent.api.scan_input import ScanInput, scan_file
from render_agent.config import RunConfig
from render_agent.geometry.camera import Camera
from render_agent.geometry.file_frame import AUTO, AnyUnit, Up
from render_agent.questions.rooms import BUNDLED
from render_agent.render.registry import make_renderer
from render_agent.render.start_pose import start_camera
from render_agent.render.views import Picture as Drawn
from render_agent.render.views import Viewer
from render_agent.scene.formats.load import load_scene
from render_agent.scene.free_space.free_space import FreeSpace
from render_agent.scene.model import Scene

DEFAULTS = RunConfig(batch=True)
"""The options of a run where nothing is said."""


@dataclass(eq=False, repr=False)
class OpenScene:
    """A scene with what draws it; its pictures are those that a run would show.

    scene: points, colours, faces, bounds, floor and ceiling, in metres, z up. viewer: draws, at one
    size. Used by one thread at a time; in a notebook it shows its map.

    >>> from render_agent import Camera, bundled_rooms, open_scene
    >>> room = open_scene(bundled_rooms()["room00"])
    >>> start = room.start()
    >>> picture = room.view(start.turned(left=90))
    >>> ahead = start.at(room.space.advance(start.position, start.offset(0.5, 0, 0))[0])
    >>> room.map([start, ahead])
    <picture (top), 640 x 480 pixels>
    """

    scene: Scene
    viewer: Viewer

    @cached_property
    def space(self) -> FreeSpace:
        """Where a camera may stand, and how far it may go."""
        return FreeSpace.of(self.scene)

    def start(self, where: str = "best") -> Camera:
        """Return where a question about the scene begins: `best`, `middle` or a pose, as in `--start`."""
        renderer, angle = self.viewer.renderer, self.viewer.vertical_fov
        return start_camera(self.scene, renderer, self.space, where, angle)

    def view(self, camera: Camera | None = None) -> Picture:
        """Return what a camera sees, with its depth; without one, the view from the start."""
        return _picture(self.viewer.ego(self.scene, camera or self.start()))

    def around(self, camera: Camera | None = None) -> Picture:
        """Return all four directions in one picture, the camera's own ahead."""
        return _picture(self.viewer.around(self.scene, camera or self.start()))

    def map(self, path: Sequence[Camera] = ()) -> Picture:
        """Return the scene from above without its ceiling, with a path of numbered poses on it."""
        camera = path[-1] if path else None
        return _picture(self.viewer.top(self.scene, camera, path[:-1]))

    def close(self) -> None:
        """Give back what drawing needed."""
        self.viewer.close()

    def __enter__(self) -> OpenScene:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        x, y, z = self.scene.bounds[1] - self.scene.bounds[0]
        faces = self.scene.faces
        dots = "points" if self.scene.gaussians is None else "Gaussians"
        what = f"{len(self.scene.points)} {dots}" if faces is None else f"{len(faces)} faces"
        return f"<scene {self.scene.id}: {what}, {x:.1f} x {y:.1f} x {z:.1f} m>"

    def _repr_png_(self) -> bytes:
        return self.map().png()


def open_scene(
    scan: ScanInput,
    *,
    size: tuple[int, int] = DEFAULTS.image_size,
    field_of_view: float = DEFAULTS.field_of_view,
    renderer: str = "rasteriser",
    up: Up = AUTO,
    unit: AnyUnit = AUTO,
) -> OpenScene:
    """Open a scan to look at it.

    scan: as in `ask`. size: width and height of its pictures in pixels. field_of_view: horizontal,
    degrees, of cameras from `start`; others bring their own. renderer, up, unit: as in `--renderer`,
    `--up` and `--unit`. SceneError where it cannot be read, SetupError where the renderer does not work
    here.

    >>> from render_agent import bundled_rooms, open_scene
    >>> open_scene(bundled_rooms()["room00"])
    <scene room00: 43440 faces, 4.8 x 4.6 x 2.7 m>
    """
    viewer = Viewer(make_renderer(renderer), size, field_of_view)
    if isinstance(scan, Scene):
        return OpenScene(scan, viewer)
    if isinstance(scan, str | PathLike):
        return OpenScene(load_scene(Path(scan), up=up, unit=unit), viewer)
    with tempfile.TemporaryDirectory(prefix="render-agent-") as folder:
        scene = load_scene(scan_file(scan, Path(folder)), "scan", up, unit)
    return OpenScene(replace(scene, source=None), viewer)


def bundled_rooms() -> dict[str, Path]:
    """Return the scans of the rooms that come with the program, by name.

    >>> from render_agent import bundled_rooms
    >>> sorted(bundled_rooms())[0]
    'room00'
    """
    return {path.stem: path for path in sorted(BUNDLED.glob("*.ply"))}


def _picture(drawn: Drawn) -> Picture:
    return Picture(drawn.picture, drawn.depth, drawn.camera, drawn.kind)
