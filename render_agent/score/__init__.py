"""Scoring: metrics, named means, confidence intervals, run comparisons, and answer parsers of other harnesses.

Start with `metrics.py` and `questions.py`, which score one answer. Then read `means.py` and `summary.py`.
"""
