"""Rows of a benchmark → `Question`: VSI-Bench and its scans, the bundled rooms, and what questions ask for.

Imports `dialogue`, `score`, `scene` and the rooms below them.
Start with `selection`, which chooses the questions of a run.
"""
