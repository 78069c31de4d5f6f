"""Scoring: metrics, named means, confidence intervals, run comparisons, and other harnesses' answer parsers.

Start with `metrics.py` and `questions.py`, which score one answer, then read `means.py` and `summary.py`.
"""
