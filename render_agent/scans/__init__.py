"""Scans: a file becomes a `Scene` in metres, with its geometry, free space, annotations and edits.

Start with `scene.py` and `camera.py`; `formats/load.py` reads files.
"""
