"""Questions: files of them, VSI-Bench and its scans, the bundled rooms, and what they name and ask for.

Imports `dialogue`, `score`, `scene` and below. Start with `selection`, which chooses the questions of a
run.
"""
