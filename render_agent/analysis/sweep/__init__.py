"""Sweeps: a grid of runs, compared in one table and one plot.

Imports the run folder and below. Start with `plan`, which reads what a sweep asks for, then `grid`.
"""
