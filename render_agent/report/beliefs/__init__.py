"""Beliefs (`--probe`) in diagnoses, reports and comparisons. Start with `part.py`."""
