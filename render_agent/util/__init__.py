"""General utilities, independent of questions and scans. Start with `atomic_files.py` and `safe_parse.py`."""
