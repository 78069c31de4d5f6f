"""Visibility: how much of objects and of a room's surface a camera sees, depth-tested.

Imports `render.base`, `questions`, `scene` and `geometry`. Start with `object_visibility`.
"""
