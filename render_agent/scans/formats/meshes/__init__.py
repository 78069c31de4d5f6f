"""Meshes: GLB, glTF, OBJ, STL and OFF. Start with `mesh_file.py`; textured formats are in `textured/`."""
