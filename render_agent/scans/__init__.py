"""Scan files as scenes in metres. Start with `scene.py` and `camera.py`; `formats/load.py` reads files."""
