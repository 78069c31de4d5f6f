"""Generates furnished rooms with exact ground truth, and questions about them. Start with `build.py`."""
