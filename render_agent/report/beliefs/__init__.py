"""Beliefs (`--probe`) in diagnoses, reports and comparisons. Start with `belief_part.py`."""
