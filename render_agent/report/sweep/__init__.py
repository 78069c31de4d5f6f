"""Sweeps: grids of runs, compared in one table. Start with `plan.py`, which reads the sweep file."""
