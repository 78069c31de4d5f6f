"""The audit of a benchmark: how much of it can be answered without looking. Start with `audit.py`."""
