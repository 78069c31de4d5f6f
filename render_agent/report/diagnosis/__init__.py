"""Diagnosis of why answers are right or wrong. Start with `diagnose.py`, then `cause.py`."""
