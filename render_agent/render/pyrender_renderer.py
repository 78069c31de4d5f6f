"""OpenGL renderer using pyrender and EGL, for machines with a GPU. Needs no display.

Differences from the rasteriser: edges are antialiased with four samples per pixel, so a depth may be sampled up to half
a pixel from the centre. All points in an image have the same size, so near points leave gaps and far ones are coarse;
use the rasteriser for clouds. Alpha cutoffs are ignored, so holes in textures are filled.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from render_agent.errors import RenderError, SetupError
from render_agent.render.make_renderer import require_opengl
from render_agent.render.projection import box_corners, far_depth, focal_scale, projection
from render_agent.render.rasteriser.mipmaps import mip_levels
from render_agent.render.renderer import (
    BACKGROUND,
    NEAR_METRES,
    Frame,
    Renderer,
    check_size,
    reject_splat,
    valid_faces,
)
from render_agent.scans.camera import Camera, FloatArray, MapCamera
from render_agent.scans.scene import Scene
from render_agent.scans.texture import Material, Texture

TO_OPENGL = np.diag([1.0, -1.0, -1.0, 1.0])  # OpenCV camera frame (y down, z forward) to OpenGL's
METRES_ABOVE_SCENE = 1.0  # distance of a map's camera from its cut, which is the near plane
NEAREST_SHARE = 0.1  # quantile of the visible points' depth at which points have their exact size


class Pyrender(Renderer):
    """Draws meshes, and clouds as squares of one size per image, with pyrender; see `Renderer`.

    All OpenGL calls run in one thread that owns the context. Frames have no primitives.
    """

    name = "pyrender"

    def __init__(self) -> None:
        """Start OpenGL. Raises SetupError if that fails, or if a package or library is missing."""
        require_opengl(self.name)
        self._uploaded: WeakKeyDictionary[Scene, Any] = WeakKeyDictionary()
        self._owner = ThreadPoolExecutor(1, self.name)
        try:
            self._owner.submit(self._start).result()
        except Exception as error:  # drivers and bindings raise arbitrary exceptions
            self._owner.shutdown()
            raise SetupError(
                f"the renderer {self.name} could not start OpenGL through EGL"
                f" ({type(error).__name__}: {error}); use --renderer rasteriser"
            ) from error

    def draw(self, scene: Scene, camera: Camera | MapCamera, width: int, height: int) -> Frame:
        check_size(width, height)
        try:
            return self._owner.submit(self._draw, scene, camera, width, height).result()
        except self._error as error:
            raise RenderError(
                f"OpenGL could not draw {scene.id} ({error}); use --renderer rasteriser"
            ) from error

    def close(self) -> None:
        """Release GPU memory and stop the thread."""
        self._owner.submit(self._release).result()
        self._owner.shutdown()

    def _start(self) -> None:
        # pyrender selects its platform by this variable on import.
        os.environ.setdefault("PYOPENGL_PLATFORM", "egl")
        import pyrender
        from OpenGL.error import Error
        from OpenGL.GL import GL_RENDERER, glGetString

        self._error = Error
        self._pyrender = pyrender
        self._flags = pyrender.RenderFlags.FLAT | pyrender.RenderFlags.SKIP_CULL_FACES
        self._renderer = pyrender.OffscreenRenderer(64, 64)
        self.device = glGetString(GL_RENDERER).decode()

    def _release(self) -> None:
        self._uploaded.clear()
        self._renderer.delete()

    def _draw(self, scene: Scene, camera: Camera | MapCamera, width: int, height: int) -> Frame:
        reject_splat(scene)
        is_empty = not len(scene.points) or (scene.faces is not None and not len(scene.faces))
        if is_empty:
            shape = height, width
            colours = np.full((*shape, 3), BACKGROUND, np.uint8)
            return Frame(colours, np.full(shape, np.inf, np.float32))
        upload = self._uploaded.get(scene)
        if upload is None:
            upload = self._uploaded[scene] = (self._scene(scene), box_corners(scene.points))
        gl_scene, corners = upload
        far = far_depth(corners, projection(camera, width, height))
        gl_camera, pose = self._camera(camera, width, height, far)
        self._renderer.viewport_width, self._renderer.viewport_height = width, height
        if scene.is_cloud:
            self._renderer.point_size = _point_size(scene, camera, width, height)
        node = gl_scene.add(gl_camera, pose=pose)
        gl_scene.main_camera_node = node
        try:
            colours, depth = self._renderer.render(gl_scene, flags=self._flags)
        finally:
            gl_scene.remove_node(node)
        is_hit = depth > 0
        if isinstance(camera, MapCamera):
            depth = (
                _flat_depth(depth, METRES_ABOVE_SCENE, far + METRES_ABOVE_SCENE)
                - METRES_ABOVE_SCENE
            )
        colours = np.array(colours)
        colours[~is_hit] = BACKGROUND
        return Frame(colours, np.where(is_hit, depth, np.inf).astype(np.float32))

    def _scene(self, scene: Scene) -> Any:
        """Return a pyrender scene: an unlit cloud, or a mesh with one primitive per material."""
        texture = scene.texture
        if scene.is_cloud or texture is None:
            faces = None if scene.is_cloud else valid_faces(scene)
            parts = [self._primitive(scene.points, faces, scene.colours)]
        else:
            faces, parts = valid_faces(scene), []
            for number, material in enumerate(texture.materials):
                material_faces = faces[texture.face_materials == number]
                if len(material_faces):
                    parts.append(self._textured_primitive(scene, texture, material, material_faces))
        gl_scene = self._pyrender.Scene(bg_color=[*(np.array(BACKGROUND) / 255), 1.0])
        gl_scene.add(self._pyrender.Mesh(parts))
        return gl_scene

    def _textured_primitive(
        self, scene: Scene, texture: Texture, material: Material, faces: NDArray[np.int32]
    ) -> Any:
        """Return the faces of one material as a primitive with its own vertices."""
        vertex_indices, corners = np.unique(faces, return_inverse=True)
        faces = corners.reshape(-1, 3).astype(np.int32)
        points = scene.points[vertex_indices]
        if material.image is None:
            return self._primitive(points, faces, scene.colours[vertex_indices])
        tints = None if texture.vertex_tints is None else texture.vertex_tints[vertex_indices]
        return self._primitive(points, faces, tints, texture.uv[vertex_indices], material)

    def _primitive(
        self,
        points: NDArray[np.float32],
        faces: NDArray[np.int32] | None,
        colours: NDArray[np.uint8] | None,
        uv: NDArray[np.float32] | None = None,
        texture_material: Material | None = None,
    ) -> Any:
        """Return a primitive with vertex colours, or with a texture multiplied by them."""
        vertex_colours = None
        if colours is not None:
            vertex_colours = np.ones((len(points), 4), np.float32)
            vertex_colours[:, :3] = colours / np.float32(255)
        material = self._pyrender.MetallicRoughnessMaterial(
            doubleSided=True,
            baseColorTexture=None
            if texture_material is None
            else self._mipmapped_texture(texture_material),
        )
        return self._pyrender.Primitive(
            positions=points,
            indices=faces,
            color_0=vertex_colours,
            # pyrender's texture coordinates start at the bottom.
            texcoord_0=None if uv is None else np.column_stack([uv[:, 0], 1 - uv[:, 1]]),
            mode=0 if faces is None else 4,
            material=material,
        )

    def _mipmapped_texture(self, material: Material) -> Any:
        """Return a material's texture for pyrender, with our mip levels uploaded instead of OpenGL's."""
        from OpenGL import GL

        wrap_modes = {
            "repeat": GL.GL_REPEAT,
            "clamp": GL.GL_CLAMP_TO_EDGE,
            "mirror": GL.GL_MIRRORED_REPEAT,
        }
        levels = mip_levels(material)

        class Mipmapped(self._pyrender.Texture):  # type: ignore[misc, name-defined]
            def _add_to_context(self) -> None:
                super()._add_to_context()
                GL.glBindTexture(self.tex_type, self._texid)
                for number, level in enumerate(levels):
                    data = np.ascontiguousarray(level[::-1])
                    height, width = level.shape[:2]
                    GL.glTexImage2D(
                        self.tex_type, number, GL.GL_RGBA, width, height, 0,
                        GL.GL_RGBA, GL.GL_UNSIGNED_BYTE, data,
                    )  # fmt: skip
                GL.glBindTexture(self.tex_type, 0)

        sampler = self._pyrender.Sampler(
            magFilter=GL.GL_LINEAR,
            minFilter=GL.GL_LINEAR_MIPMAP_LINEAR,
            wrapS=wrap_modes[material.wrap[0]],
            wrapT=wrap_modes[material.wrap[1]],
        )
        return Mipmapped(source=levels[0], source_channels="RGBA", sampler=sampler)

    def _camera(
        self, camera: Camera | MapCamera, width: int, height: int, far: float
    ) -> tuple[Any, FloatArray]:
        """Return pyrender's camera and its pose, (4, 4), in OpenGL's convention."""
        if isinstance(camera, MapCamera):
            half = camera.metres_per_pixel / 2
            gl_camera = self._pyrender.OrthographicCamera(
                width * half, height * half, znear=METRES_ABOVE_SCENE, zfar=far + METRES_ABOVE_SCENE
            )
            pose = np.eye(4)
            pose[:3, 3] = [*camera.centre, camera.height + METRES_ABOVE_SCENE]
            return gl_camera, pose
        focal = camera.focal(height)
        gl_camera = self._pyrender.IntrinsicsCamera(
            focal, focal, width / 2, height / 2, znear=NEAR_METRES, zfar=far
        )
        return gl_camera, camera.pose @ TO_OPENGL


def _point_size(scene: Scene, camera: Camera | MapCamera, width: int, height: int) -> float:
    """Return the side of the squares in pixels, based on the cloud's spacing and its near points."""
    sample = scene.points[:: max(1, len(scene.points) // 20_000)].astype(float)
    view = projection(camera, width, height)
    homogeneous = np.column_stack([sample, np.ones(len(sample))]) @ view.matrix.T
    u, v, w, depth = homogeneous.T
    is_visible = (depth > view.near) & (u > 0) & (v > 0) & (u < w * width) & (v < w * height)
    if not is_visible.any():
        return 1.0
    area = np.prod(np.sort(np.ptp(sample, axis=0))[1:])
    spacing = 2 * np.sqrt(max(float(area), 1e-12) / len(scene.points))
    near_depth = np.quantile(depth[is_visible], NEAREST_SHARE) if view.perspective else 1.0
    scale = focal_scale(camera, height) / near_depth
    return float(np.clip(2 * spacing * scale, 1.0, 64.0))


def _flat_depth(depth: FloatArray, near: float, far: float) -> FloatArray:
    """Convert pyrender's depths of an orthographic image, which it decodes as perspective, to metres."""
    with np.errstate(divide="ignore", invalid="ignore"):
        clip = (far + near - 2 * near * far / depth) / (far - near)
    return (clip * (far - near) + far + near) / 2
