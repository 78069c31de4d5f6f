"""Audit of a benchmark: how many questions can be answered without looking. Start with `audit.py`."""
