"""The default renderer: a z-buffer for meshes and point clouds on the CPU, compiled by numba.

Start with `rasteriser.py`, then `zbuffer.py`.
"""
