"""Beliefs scored: what a model said of a place is set against the boxes of its scene, and the true maps of scenes.

Imports `dialogue`, `questions`, `score` and the rooms below them; nothing is drawn here, so that no scan is needed.
Start with `map_score`, which scores one belief, then `belief_summary`, which gathers those of a run.
"""
