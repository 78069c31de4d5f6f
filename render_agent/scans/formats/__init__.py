"""Scan files read as scenes: PLY by our own reader, meshes by trimesh, clouds by Open3D.

Imports `scene.model`, `text` and `errors`. Start with `load`.
"""
