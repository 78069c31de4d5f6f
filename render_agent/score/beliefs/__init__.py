"""Scores of beliefs: what a model said about a room, compared with the boxes of its scene.

Start with `map_score.py`, which scores one belief, then `belief_figures.py`.
"""
