"""Plots as SVG files, drawn by matplotlib. Start with `run_plots.py`."""
