"""The reader of PLY files: meshes, clouds and splats. Start with `reader.py`, then `header.py`.

It is our own because headers of untrusted files must be checked before memory is allocated.
"""
