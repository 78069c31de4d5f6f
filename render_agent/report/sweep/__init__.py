"""Sweeps: grids of runs, compared in one table and one plot. Start with `plan.py`, which reads the sweep file."""
