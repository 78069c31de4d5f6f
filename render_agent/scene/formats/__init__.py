"""Scan files read as scenes: PLY by our own reader, meshes by trimesh.

Imports `scene.model`, `text` and `errors`. Start with `load`.
"""
