"""The score of answers, by VSI-Bench's official definitions and by the parsers of other harnesses.

Imports `errors` and `text`. Start with `official`, one answer scored, then `means` and `summary`.
"""
