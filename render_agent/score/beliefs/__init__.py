"""Scores of beliefs: the cognitive map a model reports, compared with the object boxes of the scene.

Start with `map_score.py`, which scores one belief, then `belief_figures.py`.
"""
