"""Verifiers: each scores the candidate moves of a turn, and `score_fusion` makes one score of theirs.

`base` has the protocol; `random`, `geometry`, `embedding`, `judge` and `learned` are behind it. Imports the
questions, scenes, renderers and engines, never an agent. Start reading in `base`.
"""
