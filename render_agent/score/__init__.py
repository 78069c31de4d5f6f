"""Scores: metrics, named means, intervals, comparisons, and the parsers of other harnesses.

Start with `metrics.py` and `questions.py`, one answer scored, then `means.py` and `summary.py`.
"""
