"""The score of answers, by VSI-Bench's official definitions and by those of the harnesses that score it.

Imports `errors` and `text`. Start with `official`, one answer scored, then `means` and `summary`.
"""
