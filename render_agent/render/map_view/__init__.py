"""The map: the room from above with its metric grid and the camera's path.

Imports `render.base`, `scene` and `geometry`. Start with `map_view`.
"""
