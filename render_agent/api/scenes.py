"""Scans without a question, from a file or from memory, to render from any pose and to explore."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from render_agent.api.images import View
from render_agent.errors import SceneError
from render_agent.options import RunConfig
from render_agent.render.make_renderer import make_renderer
from render_agent.render.viewer import Viewer
from render_agent.scans.camera import Camera
from render_agent.scans.file_frame import AUTO, AnyUnit, Up
from render_agent.scans.formats.load import load_scene
from render_agent.scans.formats.meshes.mesh_file import scan_of_geometry
from render_agent.scans.formats.ply.binary import binary_ply
from render_agent.scans.free_space.free_space import FreeSpace
from render_agent.scans.scene import Scene
from render_agent.tasks.boxes.annotations import is_annotation_file
from render_agent.tasks.rooms import BUNDLED
from render_agent.util.atomic_files import atomic_write
from render_agent.visibility.start_pose import parse_start, start_camera

# Float colours up to this are taken as fractions (rounding may exceed 1), others as 0 to 255.
FRACTIONS_TO = 2.0

DEFAULTS = RunConfig(batch=True)  # default options of a run


@dataclass(eq=False, repr=False)
class OpenScene:
    """A scan with a renderer, created by `open_scene`. Notebooks display its map. Not thread-safe.

    Attributes:
        scene: Points, colours, faces, bounds, floor and ceiling, in metres, z up.
        viewer: Renders the views, all of the same size.

    >>> from render_agent import Camera, bundled_rooms, open_scene
    >>> room = open_scene(bundled_rooms()["room00"])
    >>> start = room.start()
    >>> image = room.view(start.turned(left=90))
    >>> ahead = start.at(room.space.advance(start.position, start.offset(0.5, 0, 0))[0])
    >>> room.map([start, ahead])
    <view (top), 640 x 480 pixels>
    """

    scene: Scene
    viewer: Viewer

    @cached_property
    def space(self) -> FreeSpace:
        """The free space: valid camera positions and possible moves."""
        return FreeSpace.of(self.scene)

    def start(self, where: str = "best") -> Camera:
        """Return the first camera of a dialogue.

        Args:
            where: `best`, `four-headings`, `middle` or a pose, as in `--start`.
        """
        renderer, angle = self.viewer.renderer, self.viewer.vertical_fov
        width, height = self.viewer.size
        return start_camera(
            self.scene, renderer, self.space, parse_start(where), angle, width / height
        )

    def view(self, camera: Camera | None = None) -> View:
        """Return the view of a camera, with depth; by default, of the start camera."""
        return View.from_rendered(self.viewer.ego(self.scene, camera or self.start()))

    def around(self, camera: Camera | None = None) -> View:
        """Return one image with the views in all four directions, starting with that of the camera."""
        return View.from_rendered(self.viewer.around(self.scene, camera or self.start()))

    def map(self, path: Sequence[Camera] = ()) -> View:
        """Return the map: the scene from above without its ceiling, with a path of numbered poses."""
        camera = path[-1] if path else None
        return View.from_rendered(self.viewer.top(self.scene, camera, path[:-1]))

    def close(self) -> None:
        """Free the renderer."""
        self.viewer.close()

    def __enter__(self) -> OpenScene:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        x, y, z = self.scene.bounds[1] - self.scene.bounds[0]
        faces = self.scene.faces
        dots = "points" if self.scene.gaussians is None else "Gaussians"
        size = f"{len(self.scene.points)} {dots}" if faces is None else f"{len(faces)} faces"
        return f"<scene {self.scene.id}: {size}, {x:.1f} x {y:.1f} x {z:.1f} m>"

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
    """Open a scan.

    Args:
        scan: As in `ask`.
        size: Width and height of views in pixels.
        field_of_view: Horizontal field of view of cameras from `start`, in degrees.
        renderer: As in `--renderer`.
        up: As in `--up`.
        unit: As in `--unit`.

    Returns:
        The scan, ready to render.

    Raises:
        SceneError: The scan cannot be read.
        SetupError: The renderer does not work on this machine.

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
    """Return the scans of the bundled rooms by name.

    >>> from render_agent import bundled_rooms
    >>> sorted(bundled_rooms())[0]
    'room00'
    """
    return {path.stem: path for path in sorted(BUNDLED.glob("*.ply"))}


ScanInput: TypeAlias = Any  # a file, a scene, a trimesh or Open3D geometry, or arrays; see `ask`


def scan_file(scan: Any, folder: Path) -> Path:
    """Return the file of a scan. Scans in memory are first saved in `folder` as PLY files named by content hash."""
    if isinstance(scan, str | PathLike):
        return Path(scan)
    if scene := _from_file(scan):
        return Path(scene.source or "")
    data = ply(*arrays(scan))
    path = folder / f"{hashlib.sha256(data).hexdigest()[:16]}.ply"
    if not path.is_file():
        atomic_write(path, data)
    return path.absolute()


def read_as(scan: Any) -> dict[str, str]:
    """Return the options with which an opened scene was read; empty for other scans."""
    scene = _from_file(scan)
    return dict(zip(("up", "unit"), scene.frame.asked, strict=True)) if scene else {}


def _from_file(scan: Any) -> Scene | None:
    """Return the scene of an opened scan if reading its file again would give the same scene."""
    scene = scan.scene if isinstance(scan, OpenScene) else scan
    if not isinstance(scene, Scene) or scene.source is None:
        return None
    return None if scene.mirrored_at is not None or is_annotation_file(scene.source) else scene


def arrays(scan: Any) -> tuple[NDArray[Any], NDArray[np.uint8] | None, NDArray[Any] | None]:
    """Return points (n, 3) in metres, z up, and colours (n, 3) uint8 and faces (m, 3) or None, of any ScanInput except
    a file.
    """
    if isinstance(scan, OpenScene):
        scan = scan.scene
    if isinstance(scan, Scene):
        return scan.points, scan.colours, scan.faces
    if isinstance(scan, tuple | list) and len(scan) in (2, 3):
        points, colours, faces = (*scan, None)[:3]
    elif type(scan).__module__.startswith("trimesh"):
        try:
            data = scan_of_geometry(scan)
        except ValueError as error:
            raise SceneError(f"the {type(scan).__name__} is not a scan: {error}") from error
        points, colours, faces = data.points, data.colours, data.faces
    elif hasattr(scan, "triangles"):  # Open3D mesh
        points, faces, colours = scan.vertices, scan.triangles, scan.vertex_colors
    elif hasattr(scan, "points"):  # Open3D point cloud
        points, faces, colours = scan.points, None, scan.colors
    else:
        raise SceneError(
            f"{type(scan).__name__} is not a scan. Pass a file, a trimesh or Open3D geometry, or arrays"
            " (points, colours) or (points, colours, faces)."
        )
    return np.asarray(points), _colours(colours), None if faces is None else np.asarray(faces)


def ply(
    points: NDArray[Any], colours: NDArray[np.uint8] | None, faces: NDArray[Any] | None
) -> bytes:
    """Encode a scan as a binary PLY file. Raises SceneError unless the shapes are (n, 3), (n, 3) and (m, 3)."""
    if points.ndim != 2 or points.shape[1] != 3:
        raise SceneError(f"points must be (n, 3), not {points.shape}")
    if colours is not None and colours.shape != points.shape:
        raise SceneError(f"colours must be (n, 3) like points, not {colours.shape}")
    if faces is not None and (faces.ndim != 2 or faces.shape[1] != 3):
        raise SceneError(f"faces must be (m, 3), not {faces.shape}")
    return binary_ply(points.astype(np.float64), colours, faces)


def _colours(colours: Any) -> NDArray[np.uint8] | None:
    """Convert colours from 0 to 1 or 0 to 255, with or without opacity, to (n, 3) uint8. None stays None."""
    values = np.asarray([] if colours is None else colours)
    if not values.size:
        return None
    if values.dtype.kind == "f":
        values = np.round(values if values.max() > FRACTIONS_TO else values * 255).clip(0, 255)
    elif values.min() < 0 or values.max() > 255:
        raise SceneError(f"colours must be from 0 to 1, or from 0 to 255, not up to {values.max()}")
    shades: NDArray[np.uint8] = values[..., :3].astype(np.uint8)
    return shades
