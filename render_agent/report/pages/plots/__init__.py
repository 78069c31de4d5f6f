"""SVG plots, drawn with matplotlib. Start with `run_plots.py`."""
