"""Formats of meshes with materials: glTF and Wavefront OBJ, and the pictures that they name.

Imports `scene.formats.cleaning`, `scene.texture`, `text` and `errors`. Start with `parts`.
"""
