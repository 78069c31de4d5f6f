"""The reader of PLY files: meshes, clouds and splats. Start with `reader.py`, then `header.py`.

No library is used, because headers of untrusted files must be checked before memory is allocated.
"""
