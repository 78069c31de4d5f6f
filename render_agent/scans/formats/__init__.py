"""Readers of scan files: PLY, meshes, point clouds, splats. Start with `load.py`; `readers.py` has the table of
formats.
"""
