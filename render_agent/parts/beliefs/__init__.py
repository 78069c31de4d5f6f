"""Beliefs: asks a model for its map of the scene after a turn, and compares the map with the scene's object boxes.

Start with `ask_beliefs.py`, then `map_score.py`, which scores one belief, and `belief_figures.py`.
"""
