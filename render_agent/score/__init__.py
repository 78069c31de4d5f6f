"""Scoring. Start with `metrics.py` and `questions.py`, which score one answer; then `means.py` and `summary.py`."""
