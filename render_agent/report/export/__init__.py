"""Export of runs as training data, tables and viewer files. Start with `writers.py`."""
