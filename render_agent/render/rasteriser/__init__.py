"""The default renderer: a z-buffer for meshes and point clouds on the processor, compiled by numba.

Imports `render.base`, `scene` and `geometry`. Start with `renderer`, then `zbuffer`.
"""
