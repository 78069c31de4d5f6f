"""Furnishing: which furniture a room gets, and where. Start with `furnish.py`."""
