"""Renderers on a graphics card: OpenGL by EGL, through pyrender or moderngl.

Imports `render.base`, `scene` and `geometry`. Start with `gl_thread`, which owns the context.
"""
