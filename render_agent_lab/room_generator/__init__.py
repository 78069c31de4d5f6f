"""The generator of furnished rooms with exact ground truth, and of questions about them. Start with `build.py`."""
