"""Readers of meshes with materials: glTF and Wavefront OBJ, and the images that they name. Start with `parts.py`."""
