"""Renderers that only the benchmark draws with, behind the same seam as ours."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.geometry.camera import Camera
from render_agent.render.base import BACKGROUND, NEAR_METRES, Frame, Renderer
from render_agent.render.registry import make_renderer
from render_agent.scene.gaussians import Gaussians
from render_agent.scene.model import Scene

FAR = 30.0
POINT_SIZE = 3.0


class Vtk:
    """VTK without a window: unlit colours and the depth buffer are read for every view."""

    name = "vtk"

    def __init__(self) -> None:
        import vtk
        from vtk.util import numpy_support

        self._vtk, self._arrays = vtk, numpy_support
        self._window = vtk.vtkRenderWindow()
        self._window.SetOffScreenRendering(1)
        self._window.SetMultiSamples(0)
        self._renderer = vtk.vtkRenderer()
        self._renderer.SetBackground(*(np.array(BACKGROUND) / 255))
        self._window.AddRenderer(self._renderer)
        self._scene: Scene | None = None

    def _show(self, scene: Scene) -> None:
        vtk = self._vtk
        data, points, cells = vtk.vtkPolyData(), vtk.vtkPoints(), vtk.vtkCellArray()
        points.SetData(self._arrays.numpy_to_vtk(scene.points, deep=True))
        data.SetPoints(points)
        width = 1 if scene.faces is None else 3
        members = np.arange(len(scene.points)) if scene.faces is None else scene.faces.ravel()
        cells.SetData(
            self._arrays.numpy_to_vtkIdTypeArray(np.arange(0, len(members) + 1, width), deep=True),
            self._arrays.numpy_to_vtkIdTypeArray(members.astype(np.int64), deep=True),
        )
        (data.SetVerts if scene.faces is None else data.SetPolys)(cells)
        data.GetPointData().SetScalars(self._arrays.numpy_to_vtk(scene.colours, deep=True))
        mapper, actor = vtk.vtkPolyDataMapper(), vtk.vtkActor()
        mapper.SetInputData(data)
        actor.SetMapper(mapper)
        actor.GetProperty().LightingOff()
        actor.GetProperty().SetPointSize(POINT_SIZE)
        self._renderer.RemoveAllViewProps()
        self._renderer.AddActor(actor)
        self._scene = scene

    def draw(self, scene: Scene, camera: Camera, width: int, height: int) -> Frame:
        """Return the picture of `scene` that `camera` sees."""
        if scene is not self._scene:
            self._show(scene)
        self._window.SetSize(width, height)
        eye = self._renderer.GetActiveCamera()
        eye.SetPosition(*camera.position)
        eye.SetFocalPoint(*(np.array(camera.position) + camera.forward))
        eye.SetViewUp(0, 0, 1)
        eye.SetViewAngle(camera.vertical_fov)
        eye.SetClippingRange(NEAR_METRES, FAR)
        self._window.Render()
        colours, depth = self._vtk.vtkUnsignedCharArray(), self._vtk.vtkFloatArray()
        self._window.GetPixelData(0, 0, width - 1, height - 1, 0, colours, 0)
        self._window.GetZbufferData(0, 0, width - 1, height - 1, depth)
        picture = self._arrays.vtk_to_numpy(colours).reshape(height, width, 3)[::-1]
        z = self._arrays.vtk_to_numpy(depth).reshape(height, width)[::-1]
        return Frame(picture.copy(), _metres(z))

    def close(self) -> None:
        """Give back the window."""
        self._window.Finalize()


class Open3dWindow:
    """Open3D's older visualiser with a hidden window; colours only, which spares it the depths."""

    name = "open3d window"

    def __init__(self) -> None:
        import open3d

        self._open3d = open3d
        self._window: Any = None
        self._shown: tuple[Scene, int, int] | None = None
        if not open3d.visualization.Visualizer().create_window(visible=False):
            raise OSError("it can open no window without a display")

    def draw(self, scene: Scene, camera: Camera, width: int, height: int) -> Frame:
        """Return the picture of `scene` that `camera` sees."""
        if self._shown != (scene, width, height):
            self._show(scene, width, height)
        control = self._window.get_view_control()
        lens = control.convert_to_pinhole_camera_parameters()
        focal = camera.focal(height)
        lens.intrinsic.set_intrinsics(
            width, height, focal, focal, width / 2 - 0.5, height / 2 - 0.5
        )
        lens.extrinsic = np.linalg.inv(camera.pose)
        control.convert_from_pinhole_camera_parameters(lens, allow_arbitrary=True)
        colours = np.asarray(self._window.capture_screen_float_buffer(do_render=True))
        return Frame((colours * 255).astype(np.uint8), np.zeros((height, width), np.float32))

    def _show(self, scene: Scene, width: int, height: int) -> None:
        self.close()
        geometry = self._open3d.geometry
        points = self._open3d.utility.Vector3dVector(scene.points.astype(float))
        shades = self._open3d.utility.Vector3dVector(scene.colours / 255)
        if scene.faces is None:
            thing = geometry.PointCloud(points)
            thing.colors = shades
        else:
            thing = geometry.TriangleMesh(points, self._open3d.utility.Vector3iVector(scene.faces))
            thing.vertex_colors = shades
        self._window = self._open3d.visualization.Visualizer()
        self._window.create_window(width=width, height=height, visible=False)
        option = self._window.get_render_option()
        option.light_on, option.mesh_show_back_face = False, True
        self._window.add_geometry(thing)
        self._shown = (scene, width, height)

    def close(self) -> None:
        """Give back the window."""
        if self._window is not None:
            self._window.destroy_window()


def splat_ply(points: NDArray[np.float32], gaussians: Gaussians) -> bytes:
    """Return a splat, z up, as the bytes of a binary PLY file; points: (n, 3) metres."""
    varying = gaussians.harmonics[:, 1:].transpose(0, 2, 1).reshape(len(points), -1)
    opacities = np.clip(gaussians.opacities.astype(np.float64), 1e-7, 1 - 1e-7)
    names = [*"xyz", "nx", "ny", "nz", *(f"f_dc_{i}" for i in range(3))]
    names += [*(f"f_rest_{i}" for i in range(varying.shape[1])), "opacity"]
    names += [*(f"scale_{i}" for i in range(3)), *(f"rot_{i}" for i in range(4))]
    rows = np.zeros((len(points), len(names)), "<f4")
    last = len(names) - 8
    rows[:, :3] = points
    rows[:, 6:9] = gaussians.harmonics[:, 0]
    rows[:, 9:last] = varying
    rows[:, last] = np.log(opacities / (1 - opacities))
    rows[:, last + 1 : last + 4] = np.log(np.maximum(gaussians.scales, 1e-7))
    rows[:, last + 4 :] = gaussians.rotations
    header = ["ply", "format binary_little_endian 1.0"]
    header += ["comment up z", f"element vertex {len(points)}"]
    header += [*(f"property float {name}" for name in names), "end_header", ""]
    return b"".join(["\n".join(header).encode("ascii", "replace"), rows.data])


class Open3dSplats:
    """Open3D's splats, by compute shaders of Vulkan, which Mesa's lavapipe runs on a processor; colours only.

    It needs a display (Xvfb will do), libvulkan1 and mesa-vulkan-drivers, and VK_ICD_FILENAMES to name
    lavapipe's file where there are other drivers.
    """

    name = "open3d"

    def __init__(self, width: int, height: int) -> None:
        from open3d.visualization import rendering

        self._material = rendering.MaterialRecord()
        self._material.shader = "gaussianSplat"
        self._renderer = rendering.OffscreenRenderer(width, height)
        self._renderer.scene.set_background([*(np.array(BACKGROUND) / 255), 1.0])
        self._scene: Scene | None = None

    def draw(self, scene: Scene, camera: Camera) -> NDArray[np.uint8]:
        """Return the picture of a splat that `camera` sees."""
        if scene is not self._scene:
            self._show(scene)
        eye = np.array(camera.position)
        self._renderer.setup_camera(camera.vertical_fov, eye + camera.forward, eye, [0, 0, 1])
        return np.asarray(self._renderer.render_to_image())

    def _show(self, scene: Scene) -> None:
        import open3d

        assert scene.gaussians is not None
        with TemporaryDirectory() as folder:
            path = Path(folder) / "splat.ply"
            path.write_bytes(splat_ply(scene.points, scene.gaussians))
            cloud = open3d.t.io.read_point_cloud(str(path))
        self._renderer.scene.clear_geometry()
        self._renderer.scene.add_geometry("splat", cloud, self._material)
        self._scene = scene


def _metres(z: np.ndarray) -> np.ndarray:
    """Return depths in metres of a depth buffer, inf where it is clear."""
    depth = NEAR_METRES * FAR / (FAR - z * (FAR - NEAR_METRES))
    return np.where(z < 1, depth, np.inf).astype(np.float32)


def renderer_of(name: str) -> Renderer:
    """Return one of ours, or `vtk` or `open3d-window`."""
    others: dict[str, Any] = {"vtk": Vtk, "open3d-window": Open3dWindow}
    return others[name]() if name in others else make_renderer(name)
