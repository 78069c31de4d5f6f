"""Free space: where a camera may stand in a scene, and how far it may move.

Imports `scene.model` and `geometry`. Start with `free_space`.
"""
