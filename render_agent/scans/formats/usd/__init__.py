"""The reader of USD, the only package that imports pxr. Start with `stage.py`, then `materials.py`."""
