"""Furnishing: chooses and places the furniture of each room. Start with `furnish.py`."""
