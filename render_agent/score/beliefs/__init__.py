"""Scores of beliefs: the cognitive map that a model reports, compared with the scene's object boxes.

Start with `map_score.py`, which scores one belief, then `belief_figures.py`.
"""
