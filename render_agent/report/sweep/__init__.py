"""Sweeps: a grid of runs, compared in one table and one plot.

Imports the run folder, `score` and below. Start with `plan`, which reads the file of a sweep, then `grid`,
`table` and `output`.
"""
