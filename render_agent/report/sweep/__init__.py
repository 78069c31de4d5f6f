"""Sweeps: a grid of runs, compared in one table and one plot. Start with `plan.py`, which reads the file of a sweep."""
