"""Policies that reply by rule instead of by a model: explorers, baselines, oracles.

Imports `engines.base`, `observation` and below. Start with `engine`.
"""
