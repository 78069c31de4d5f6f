"""Gaussian splats: projected, sorted by depth, and blended front to back. Start with `renderer.py`, then `ewa.py`."""
