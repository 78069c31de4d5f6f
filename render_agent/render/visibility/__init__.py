"""Visibility: how much of an object or of the surface of a room a camera sees. Start with `object_visibility.py`."""
