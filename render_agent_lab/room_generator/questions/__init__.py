"""VSI-Bench questions about generated homes, balanced over their answers. Start with `balanced.py`."""
