"""Several runs side by side: paired comparisons, and one list, table and plot of runs. Start with `compare_runs.py`."""
