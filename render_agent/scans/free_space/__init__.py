"""Free space: where a camera may be, and how far it can move. Start with `free_space.py`."""
