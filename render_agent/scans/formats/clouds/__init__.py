"""Point clouds as scanners and robots write them: LAS, LAZ, E57, PCD, and columns of text.

Imports the other modules of `scene.formats`. Start with `cloud_builder`, then `las`.
"""
