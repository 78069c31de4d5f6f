"""Rooms of coloured boxes from VSI-Bench's annotations, for scans that are not at hand.

Imports `scene.model`, `geometry` and `text`. Start with `annotated_room`.
"""
