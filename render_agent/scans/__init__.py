"""Scans: reads files into a `Scene` in metres. Also free space, ground truth, annotations and edits.

Start with `scene.py` and `camera.py`; `formats/load.py` reads files.
"""
