"""OpenGL through moderngl and EGL: for machines with a graphics card; no display is needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from render_agent.geometry.camera import Camera, FloatArray, MapCamera
from render_agent.render.base import BACKGROUND, Frame, refuse_splat, sound_faces
from render_agent.render.opengl.gl_thread import ThreadedRenderer
from render_agent.render.projection import (
    Projection,
    box_corners,
    focal_scale,
    furthest,
    projection,
)
from render_agent.render.rasteriser.mipmaps import alpha_cutoff, mip_levels
from render_agent.scene.model import Scene
from render_agent.scene.texture import Material, Texture

VERTEX_SHADER = """
#version 330 core
uniform mat4 to_clip;
uniform vec4 to_depth;
uniform float pixels;
in vec3 position;
in vec3 colour;
in float radius;
in vec2 uv;
in vec3 tint;
out vec3 shade;
out vec2 place;
out vec3 light;
out float depth;
void main() {
    gl_Position = to_clip * vec4(position, 1.0);
    gl_PointSize = max(2.0 * radius * pixels / gl_Position.w, 1.0);
    shade = colour;
    place = uv;
    light = tint;
    depth = dot(to_depth, vec4(position, 1.0));
}
"""

FRAGMENT_SHADER = """
#version 330 core
uniform sampler2D page;
uniform bool pictured;
uniform bool tinted;
uniform bvec2 mirrored;
uniform float cutoff;
uniform int first;
in vec3 shade;
in vec2 place;
in vec3 light;
in float depth;
layout(location = 0) out vec4 out_colour;
layout(location = 1) out float out_depth;
layout(location = 2) out int out_primitive;
vec3 linear(vec3 c) {
    return mix(c / 12.92, pow((c + 0.055) / 1.055, vec3(2.4)), step(0.04045, c));
}
vec3 screen(vec3 c) {
    return mix(12.92 * c, 1.055 * pow(c, vec3(1.0 / 2.4)) - 0.055, step(0.0031308, c));
}
void main() {
    vec3 seen = shade;
    if (pictured) {
        vec2 size = vec2(textureSize(page, 0));
        vec2 across = dFdx(place) * size, down = dFdy(place) * size;
        float level = 0.5 * log2(max(max(dot(across, across), dot(down, down)), 1.0));
        vec2 folded = 1.0 - abs(mod(place, 2.0) - 1.0);
        vec4 texel = textureLod(page, mix(place, folded, vec2(mirrored)), level);
        if (texel.a < cutoff) discard;
        seen = tinted ? screen(linear(texel.rgb) * linear(light)) : texel.rgb;
    }
    out_colour = vec4(seen, 1.0);
    out_depth = depth;
    out_primitive = gl_PrimitiveID + first;
}
"""


@dataclass(frozen=True, eq=False)
class _Uploaded:
    """A scene on the graphics card.

    corners: (8, 3) metres, of its bounding box. order: (n,) the scene's index of each primitive,
    None where it is the primitive's own. runs: primitives that are drawn at once. tinted: whether
    vertex colours multiply pictures.
    """

    array: Any
    buffers: tuple[Any, ...]
    mode: int
    corners: FloatArray
    order: NDArray[np.int32] | None
    runs: tuple[_Run, ...]
    tinted: bool


@dataclass(frozen=True, eq=False)
class _Run:
    """Primitives of one material: the first, how many (-1 for all), and what lies over them."""

    first: int
    count: int
    material: Material | None = None
    page: Any = None


class ModernGL(ThreadedRenderer):
    """Draws meshes, and clouds as squares, with OpenGL 3.3 (see Renderer)."""

    name = "moderngl"

    def __init__(self) -> None:
        self._uploaded: WeakKeyDictionary[Scene, _Uploaded] = WeakKeyDictionary()
        self._target: tuple[tuple[int, int], Any, tuple[Any, ...]] | None = None
        super().__init__()

    def _start(self) -> None:
        import moderngl

        self._error = moderngl.Error
        create: Any = moderngl.create_context
        self._context: Any = create(require=330, standalone=True, backend="egl")
        # released objects are collected on the owner's thread only, before the next frame
        self._context.gc_mode = "context_gc"
        self.device = str(self._context.info["GL_RENDERER"])
        self._program = self._context.program(VERTEX_SHADER, FRAGMENT_SHADER)
        self._mipmapped = (moderngl.LINEAR_MIPMAP_LINEAR, moderngl.LINEAR)
        self._triangles, self._points = moderngl.TRIANGLES, moderngl.POINTS
        self._context.enable_only(moderngl.DEPTH_TEST | moderngl.PROGRAM_POINT_SIZE)

    def _release(self) -> None:
        self._uploaded.clear()
        self._target = None
        self._context.gc()
        self._context.release()

    def _draw(self, scene: Scene, camera: Camera | MapCamera, width: int, height: int) -> Frame:
        refuse_splat(scene)
        self._context.gc()
        view = projection(camera, width, height)
        target = self._frame_buffer(width, height)
        target.use()
        target.clear()
        if len(scene.points) and (scene.faces is None or len(scene.faces)):
            uploaded = self._uploaded.get(scene)
            if uploaded is None:
                uploaded = self._uploaded[scene] = self._upload(scene)
            to_clip = _clip_matrix(uploaded.corners, view, width, height)
            self._program["to_clip"].write(np.ascontiguousarray(to_clip.T, np.float32))
            self._program["to_depth"].write(view.matrix[3].astype(np.float32))
            self._program["pixels"].value = focal_scale(camera, height)
            self._program["tinted"].value = uploaded.tinted
            for run in uploaded.runs:
                self._use(run)
                uploaded.array.render(
                    uploaded.mode,
                    vertices=3 * run.count if run.count >= 0 else -1,
                    first=3 * run.first,
                )
            order = uploaded.order
        else:
            order = np.full(1, -1, np.int32)
        return _frame(target, order, width, height)

    def _frame_buffer(self, width: int, height: int) -> Any:
        """Return a target with colour, depth in metres, primitive, and a depth buffer of this size."""
        if self._target is None or self._target[0] != (width, height):
            size = (width, height)
            attachments = (
                self._context.texture(size, 4),
                self._context.texture(size, 1, dtype="f4"),
                self._context.texture(size, 1, dtype="i4"),
                self._context.depth_texture(size),
            )
            buffer = self._context.framebuffer(attachments[:3], attachments[3])
            self._target = (size, buffer, attachments)
        return self._target[1]

    def _use(self, run: _Run) -> None:
        material = run.material
        self._program["first"].value = run.first
        self._program["pictured"].value = material is not None
        if material is not None:
            run.page.use(0)
            self._program["mirrored"].value = tuple(way == "mirror" for way in material.wrap)
            self._program["cutoff"].value = alpha_cutoff(material) / 255

    def _page(self, material: Material) -> Any:
        """Return a material's picture on the graphics card, all its mip levels ours."""
        levels = mip_levels(material)
        page = self._context.texture(levels[0].shape[1::-1], 4, levels[0])
        if len(levels) > 1:
            page.build_mipmaps(0, len(levels) - 1)
            for number, level in enumerate(levels):
                page.write(level, level=number)
            page.filter = self._mipmapped
        page.repeat_x, page.repeat_y = (way == "repeat" for way in material.wrap)
        return page

    def _upload(self, scene: Scene) -> _Uploaded:
        order: NDArray[np.int32] | None = None
        points, colours, radii = scene.points, scene.colours, np.zeros(len(scene.points), "f4")
        indices, texture, runs = None, scene.texture, [_Run(0, -1)]
        if scene.faces is not None:
            faces = sound_faces(scene)
            if texture is not None:
                order = np.argsort(texture.face_materials, kind="stable").astype(np.int32)
                faces, runs = faces[order], self._runs(texture, order)
            indices = self._context.buffer(faces)
        else:
            from render_agent.render.rasteriser.blocks import POINTS_PER_BLOCK, cloud_blocks

            blocks = cloud_blocks(scene)
            points, colours, order = blocks.points.T, blocks.colours, blocks.order
            radii = np.repeat(blocks.radii, POINTS_PER_BLOCK)[: len(order)].astype("f4")
        buffers = tuple(
            self._context.buffer(np.ascontiguousarray(values))
            for values in (points.astype("f4", copy=False), colours, radii)
        )
        layout = [
            (buffers[0], "3f", "position"),
            (buffers[1], "3f1", "colour"),
            (buffers[2], "1f", "radius"),
        ]
        tinted = texture is not None and texture.vertex_tints is not None
        if texture is not None:
            uv = self._context.buffer(np.ascontiguousarray(texture.uv, "f4"))
            buffers, layout = (*buffers, uv), [*layout, (uv, "2f", "uv")]
            if texture.vertex_tints is not None:
                tints = self._context.buffer(np.ascontiguousarray(texture.vertex_tints))
                buffers, layout = (*buffers, tints), [*layout, (tints, "3f1", "tint")]
        array = self._context.vertex_array(self._program, layout, indices)
        mode = self._points if scene.is_cloud else self._triangles
        corners = box_corners(scene.points)
        return _Uploaded(array, (*buffers, indices), mode, corners, order, tuple(runs), tinted)

    def _runs(self, texture: Texture, order: NDArray[np.int32]) -> list[_Run]:
        """Return the runs of faces of each material; faces without a picture are one run a material, too."""
        sorted_materials = texture.face_materials[order]
        runs = []
        for number, material in enumerate(texture.materials):
            first, end = (
                int(np.searchsorted(sorted_materials, number, side)) for side in ("left", "right")
            )
            if end > first:
                pictured = material.picture is not None
                page = self._page(material) if pictured else None
                runs.append(_Run(first, end - first, material if pictured else None, page))
        return runs


def _clip_matrix(corners: FloatArray, view: Projection, width: int, height: int) -> FloatArray:
    """Return the (4, 4) matrix to OpenGL's clip space; row 0 of the buffer is the picture's top."""
    far, near = furthest(corners, view), view.near
    u, v, w, depth = view.matrix
    if view.perspective:
        z = (depth * (far + near) - 2 * far * near * np.array([0, 0, 0, 1])) / (far - near)
    else:
        z = 2 * depth / far - w
    return np.array([2 * u / width - w, 2 * v / height - w, z, w])


def _frame(target: Any, order: NDArray[np.int32] | None, width: int, height: int) -> Frame:
    """Read the target; nothing was drawn where its depth is still 0."""
    colours = np.frombuffer(target.read(components=3, alignment=1), np.uint8)
    colours = colours.reshape(height, width, 3).copy()
    depth = np.frombuffer(target.read(components=1, attachment=1, dtype="f4"), np.float32)
    depth = depth.reshape(height, width).copy()
    primitive = np.frombuffer(target.read(components=1, attachment=2, dtype="i4"), np.int32)
    primitive = primitive.reshape(height, width).copy()
    empty = depth == 0
    colours[empty] = BACKGROUND
    depth[empty] = np.inf
    primitive[empty] = -1
    if order is not None:
        primitive[~empty] = order[primitive[~empty]]
    return Frame(colours, depth, primitive)
