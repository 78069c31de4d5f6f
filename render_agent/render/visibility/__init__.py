"""Visibility: how much of an object, or of a room's surface, a camera sees. Start with `object_visibility.py`."""
